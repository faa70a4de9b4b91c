#include "frontends/jobs/analyze/tabulate_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/file_set.h"
#include "frontends/jobs/analyze/analyze_model.h"
#include "frontends/sources/open_source.h"
#include "ir/base/report_json.h"
#include "ir/model/model_experts.h"

namespace moec {
namespace {

Result<bool> has_experts(const AnalyzeOptions& options) {
  if (options.exported) {
    MOEC_ASSIGN(const Manifest manifest, read_manifest(options.source));
    return !expert_grid(manifest).layers.empty();
  }
  MOEC_ASSIGN(const Checkpoint checkpoint, open_config_only(options.source, options.family));
  return !expert_grid(checkpoint.config).layers.empty();
}

Diagnostic note_of(std::string code, std::string cause, std::string next, const std::string& file) {
  return {Severity::note, std::move(code), std::move(cause), std::move(next), {.file = file}};
}

// Adds notes about empty rows.
void note_gaps(const AnalyzeOptions& options, bool experts, const ModelCosts& costs,
               Diagnostics& notes) {
  if (!experts)
    notes.push_back(note_of("table.no_experts",
                            "rows about experts are empty: the model has no experts", "",
                            options.source));
  else if (!options.text.given() && options.imatrix.empty())
    notes.push_back(
        note_of("table.no_text", "rows about the load of experts are empty: there is no text",
                "pass --prompts default, --prompt, --text or --tokens", options.source));
  if (!costs.parameters)
    notes.push_back(note_of("table.no_parameters", "report.json has no number of parameters",
                            "export the model again", options.source));
  if (costs.steps.empty())
    notes.push_back(
        note_of("table.no_latency",
                "rows about steps, caches and values are empty: the source is a checkpoint",
                "pass an export", options.source));
}

EnergyPrices prices_of(const TableOptions& table, DType multiplied) {
  EnergyPrices prices = horowitz_prices(multiplied);
  if (!table.energy_per_byte && !table.energy_per_mac) return prices;
  const bool both = table.energy_per_byte && table.energy_per_mac;
  prices.source = both ? "as given" : fmt::format("one as given; the other {}", prices.source);
  prices.per_byte = table.energy_per_byte.value_or(prices.per_byte);
  prices.per_mac = table.energy_per_mac.value_or(prices.per_mac);
  return prices;
}

// Computes the costs of a model, and with `analyze` the load balance of its experts.
struct Tabulator {
  const AnalyzeOptions& options;
  Diagnostics& notes;

  template <class Analyze>
  Result<TableColumn> column(Analyze analyze) {
    // A dense model has no load to measure, even with a text.
    MOEC_ASSIGN(const bool experts, has_experts(options));
    TableColumn column;
    if (experts && (options.text.given() || !options.imatrix.empty())) {
      MOEC_ASSIGN(column.balance, analyze(options));
    }
    MOEC_ASSIGN(column.costs, costs_of_model(options));
    column.prices = prices_of(*options.table, column.costs.multiplied);
    note_gaps(options, experts, column.costs, notes);
    return column;
  }
};

AnalyzeOptions baseline_options(const AnalyzeOptions& options) {
  AnalyzeOptions baseline = options;
  baseline.source = options.table->baseline;
  baseline.exported = options.table->baseline_exported;
  baseline.imatrix.clear();  // the imatrix belongs to the model
  // The family options describe the model; the baseline may be of another family.
  baseline.family = {};
  return baseline;
}

Result<std::optional<TableColumn>> baseline_column(const AnalyzeOptions& options,
                                                   Diagnostics& notes) {
  if (options.table->baseline.empty()) return std::nullopt;
  const AnalyzeOptions baseline = baseline_options(options);
  MOEC_ASSIGN(TableColumn column,
              (Tabulator{baseline, notes}.column(
                  [](const AnalyzeOptions& own) -> Result<std::optional<LoadBalance>> {
                    // Unlike analyze_model(), writes no results, which would replace the files of
                    // the model.
                    MOEC_ASSIGN(const Analysis analysis, analyze_text(own));
                    return balance_of(analysis);
                  })));
  return column;
}

// Adds a note if the contexts differ: attention computes all rows of a static context.
void note_contexts(const ModelCosts& model, const ModelCosts& baseline, Diagnostics& notes) {
  if (model.context == baseline.context) return;
  notes.push_back(note_of(
      "table.context",
      fmt::format("caches and MACs are not comparable: the contexts are {} and {}", model.context,
                  baseline.context),
      "export both with the same --context, or pass --window for checkpoints", baseline.source));
}

Status write_table(const ModelTable& table, const std::string& folder) {
  return write_set(folder, {{"table.csv", table_csv(table)},
                            {"table.md", table_markdown(table)},
                            {"table.json", json_text(table_json(table)) + "\n"}});
}

}  // namespace

Result<TabulatedModel> tabulate_model(const AnalyzeOptions& options) {
  TabulatedModel tabulated;
  const auto analyze = [&](const AnalyzeOptions& own) -> Result<std::optional<LoadBalance>> {
    MOEC_ASSIGN(tabulated.analysis, analyze_model(own));
    // Replaces `notes`, so column() must call this before note_gaps(), which appends notes.
    tabulated.notes = tabulated.analysis->notes;
    return balance_of(*tabulated.analysis);
  };
  MOEC_ASSIGN(TableColumn model, (Tabulator{options, tabulated.notes}.column(analyze)));
  MOEC_ASSIGN(std::optional<TableColumn> baseline, baseline_column(options, tabulated.notes));
  if (baseline) note_contexts(model.costs, baseline->costs, tabulated.notes);
  tabulated.table = model_table(std::move(model), std::move(baseline));
  MOEC_TRY(write_table(tabulated.table, options.folder));
  return tabulated;
}

}  // namespace moec
