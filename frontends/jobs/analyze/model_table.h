// A table of a model's costs, optionally next to those of a baseline.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/analyze/model_costs.h"
#include "frontends/measure/analysis.h"
#include "ir/base/enum_table.h"

namespace moec {

// An expert counts as used if it gets more than this fraction of an even share of its layer's
// selections.
inline constexpr double kUsedShare = 0.2;

// Load balance of a model's experts on a text, averaged over its MoE layers.
struct LoadBalance {
  double experts_a_token = 0;  // picked experts per token and layer
  double used = 0;             // fraction of used experts, 0 to 1
  double gini = 0;             // LayerStatistics::gini
  double entropy_bits = 0;     // LayerStatistics::entropy_bits
  double entropy_share = 0;    // entropy_bits / log2(experts), 0 to 1
};

// Returns averages over the layers that have tokens; `analysis` must have at least one such layer.
LoadBalance balance_of(const Analysis& analysis);

// Returns the fraction of used experts, given the selection count of each expert; 0 without
// selections.
double used_part(std::span<const int64_t> selections);

struct TableColumn {
  ModelCosts costs;
  std::optional<LoadBalance> balance;  // absent without experts or text
  EnergyPrices prices;
};

// Unit of a number, for display.
enum class TableUnit : uint8_t { count, bytes, seconds, joules, part, bits, number };
constexpr auto enum_names(TableUnit) {
  return name_table<TableUnit>({"count", "bytes", "seconds", "joules", "part", "bits", "number"});
}

struct TableRow {
  std::string metric;  // name in files, such as "token_bytes"
  std::string label;   // human-readable name
  TableUnit unit = TableUnit::count;
  std::optional<double> value, baseline;  // unscaled: bytes, seconds, joules or fractions
  bool comparable = true;                 // false if the steps have different widths
  // Returns value / baseline; none if one is unknown, the baseline is 0, or `comparable` is false.
  std::optional<double> ratio() const;
};

struct ModelTable {
  TableColumn model;
  std::optional<TableColumn> baseline;
  std::vector<TableRow> rows;
};

ModelTable model_table(TableColumn model, std::optional<TableColumn> baseline);

// Human-readable text with footnotes, and the same in Markdown.
std::string table_text(const ModelTable& table);
std::string table_markdown(const ModelTable& table);
// metric,unit,model,baseline,ratio: unscaled numbers; cells of unknown values are empty.
std::string table_csv(const ModelTable& table);
nlohmann::ordered_json table_json(const ModelTable& table);

}  // namespace moec
