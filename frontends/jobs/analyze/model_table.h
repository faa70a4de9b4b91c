// The costs of a model in one table, beside those of a baseline: what guides to upcycling compare.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/analyze/load_balance.h"
#include "frontends/jobs/analyze/model_costs.h"
#include "ir/base/enum_table.h"

namespace moec {

struct TableColumn {
  ModelCosts costs;
  std::optional<LoadBalance> balance;  // nothing without experts, or without a text
  EnergyPrices prices;
};

// How a number is shown to people.
enum class TableUnit : uint8_t { count, bytes, seconds, joules, part, bits, number };
constexpr auto enum_names(TableUnit) {
  return name_table<TableUnit>({"count", "bytes", "seconds", "joules", "part", "bits", "number"});
}

struct TableRow {
  std::string metric;  // "token_bytes": its name in files
  std::string label;   // for people
  TableUnit unit = TableUnit::count;
  std::optional<double> value, baseline;  // in units of one: bytes, seconds, joules, parts of 1
  bool comparable = true;                 // false: steps of different widths
  // value / baseline; nothing where one of them is not known, or the baseline's is 0, or they
  // cannot be compared.
  std::optional<double> ratio() const;
};

struct ModelTable {
  TableColumn model;
  std::optional<TableColumn> baseline;
  std::vector<TableRow> rows;
};

ModelTable model_table(TableColumn model, std::optional<TableColumn> baseline);

// For people, with the prices of energy below; the same in Markdown.
std::string table_text(const ModelTable& table);
std::string table_markdown(const ModelTable& table);
// metric,unit,model,baseline,ratio: whole numbers, cells of what is not known are empty.
std::string table_csv(const ModelTable& table);
nlohmann::ordered_json table_json(const ModelTable& table);

}  // namespace moec
