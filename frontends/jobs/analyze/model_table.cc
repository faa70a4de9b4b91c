#include "frontends/jobs/analyze/model_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ir/base/byte_text.h"

namespace moec {
namespace {

// ---- Rows --------------------------------------------------------------------------------------

using Number = std::optional<double>;

// A metric, and the function that returns its value for one model.
struct Metric {
  std::string_view name, label;
  TableUnit unit;
  Number (*value)(const TableColumn&);
};

Number whole(const std::optional<int64_t>& number) {
  return number ? Number(static_cast<double>(*number)) : std::nullopt;
}

template <double LoadBalance::*Field>
Number of_balance(const TableColumn& column) {
  return column.balance ? Number((*column.balance).*Field) : std::nullopt;
}

template <size_t Index>
Number seconds_of_step(const TableColumn& column) {
  const std::vector<StepTime>& steps = column.costs.steps;
  return Index < steps.size() ? Number(steps[Index].seconds) : std::nullopt;
}

// Returns the throughput of the widest step, which is used for prompts.
Number tokens_a_second(const TableColumn& column) {
  const std::vector<StepTime>& steps = column.costs.steps;
  // A clock may report a time of 0 for a small model.
  if (steps.empty() || steps.back().seconds <= 0) return std::nullopt;
  return static_cast<double>(steps.back().tokens) / steps.back().seconds;
}

Number energy(const TokenReads& reads, const TableColumn& column) {
  return energy_of(reads.bytes, reads.macs, column.prices);
}

using enum TableUnit;
// The names are part of the file formats table.csv and table.json; labels are for people only.
constexpr Metric kMetrics[] = {
    {"parameters", "parameters", count, [](auto& c) { return whole(c.costs.parameters); }},
    {"active_parameters", "active parameters per token", count,
     [](auto& c) { return whole(c.costs.active); }},
    {"weight_bytes", "memory: weights", bytes, [](auto& c) { return whole(c.costs.weight_bytes); }},
    {"cache_bytes", "memory: caches", bytes, [](auto& c) { return whole(c.costs.cache_bytes); }},
    {"value_bytes", "memory: values", bytes, [](auto& c) { return whole(c.costs.value_bytes); }},
    {"token_bytes_all", "read per token, all experts", bytes,
     [](auto& c) { return whole(c.costs.all.bytes); }},
    {"token_bytes", "read per token, picked experts", bytes,
     [](auto& c) { return whole(c.costs.chosen.bytes); }},
    {"token_macs_all", "MACs per token, all experts", count,
     [](auto& c) { return whole(c.costs.all.macs); }},
    {"token_macs", "MACs per token, picked experts", count,
     [](auto& c) { return whole(c.costs.chosen.macs); }},
    {"step_seconds", "narrowest step", seconds, seconds_of_step<0>},
    {"prefill_seconds", "widest step", seconds, seconds_of_step<1>},
    {"tokens_per_second", "tokens per second, widest step", count, tokens_a_second},
    {"experts_per_token", "experts per token and layer", number,
     of_balance<&LoadBalance::experts_a_token>},
    {"used_experts", "experts above 20 % of an even share", part, of_balance<&LoadBalance::used>},
    {"gini", "Gini of the experts' load", number, of_balance<&LoadBalance::gini>},
    {"entropy_bits", "entropy of the load", bits, of_balance<&LoadBalance::entropy_bits>},
    {"entropy_share", "entropy relative to an even load", part,
     of_balance<&LoadBalance::entropy_share>},
    {"energy_joules_all", "energy per token, all experts", joules,
     [](auto& c) { return energy(c.costs.all, c); }},
    {"energy_joules", "energy per token, picked experts", joules,
     [](auto& c) { return energy(c.costs.chosen, c); }},
};

// Returns the timed step of a metric; null if the metric has no step or the step was not timed.
const StepTime* step_of(const Metric& metric, const TableColumn& column) {
  const std::vector<StepTime>& steps = column.costs.steps;
  if (steps.empty()) return nullptr;
  // Function pointers identify the metrics, because kMetrics has no other key for them.
  if (metric.value == seconds_of_step<0>) return &steps.front();
  const bool widest = metric.value == seconds_of_step<1> || metric.value == tokens_a_second;
  return widest ? &steps.back() : nullptr;
}

bool same_step(const Metric& metric, const TableColumn& model, const TableColumn& baseline) {
  const StepTime* own = step_of(metric, model);
  const StepTime* other = step_of(metric, baseline);
  // A metric without a step, such as a count of parameters, is always comparable.
  return own == nullptr || other == nullptr || own->tokens == other->tokens;
}

// ---- Texts -------------------------------------------------------------------------------------

// Scales with the SI prefix that leaves one to three digits before the decimal point.
std::string scaled(double value, std::string_view unit) {
  constexpr std::string_view kPrefixes[] = {"p", "n", "u", "m", ""};
  // Starts at pico, the smallest prefix, so that the loop only divides.
  double scaled_value = value * 1e12;
  size_t prefix = 0;
  while (std::fabs(scaled_value) >= 1000 && prefix + 1 < std::size(kPrefixes)) {
    scaled_value /= 1000;
    ++prefix;
  }
  return fmt::format("{:.3g} {}{}", scaled_value, kPrefixes[prefix], unit);
}

std::string text_of(const Number& known, TableUnit unit) {
  if (!known) return "-";
  switch (unit) {
    case count:
      // Counts may exceed 2^31; "{:.0f}" prints a whole double without an exponent.
      return fmt::format("{:.0f}", *known);
    case bytes:
      return decimal_bytes(std::llround(*known));
    case seconds:
      return scaled(*known, "s");
    case joules:
      return scaled(*known, "J");
    case part:
      return fmt::format("{:.1f} %", 100 * *known);
    case bits:
      return fmt::format("{:.3f} bits", *known);
    case number:
      break;
  }
  return fmt::format("{:.3f}", *known);
}

std::string ratio_text(const TableRow& row) {
  return row.ratio() ? fmt::format("{:.3f}", *row.ratio()) : "-";
}

std::string steps_text(const ModelCosts& costs) {
  if (costs.steps.empty()) return "no steps were timed";
  std::string text = fmt::format("steps of {}", costs.steps.front().tokens);
  if (costs.steps.size() > 1) text += fmt::format(" and {}", costs.steps.back().tokens);
  return text + (costs.steps.back().tokens == 1 ? " token" : " tokens");
}

// Describes the sources of a column's numbers.
std::string footnote(std::string_view name, const TableColumn& column) {
  const ModelCosts& costs = column.costs;
  return fmt::format(
      "{}: {}, {} ({}), context {}, {}; energy {:g} pJ per byte and {:g} pJ per MAC ({})\n", name,
      costs.source, costs.exported ? "an export" : "a checkpoint", costs.model, costs.context,
      steps_text(costs), column.prices.per_byte, column.prices.per_mac, column.prices.source);
}

std::string footnotes(const ModelTable& table) {
  std::string text = footnote("model", table.model);
  if (table.baseline) text += footnote("baseline", *table.baseline);
  return text;
}

nlohmann::ordered_json number_json(const Number& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json column_json(const TableColumn& column) {
  const ModelCosts& costs = column.costs;
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const StepTime& step : costs.steps)
    steps.push_back({{"tokens", step.tokens}, {"seconds", step.seconds}});
  return {{"source", costs.source},
          {"kind", costs.exported ? "export" : "checkpoint"},
          {"model", costs.model},
          {"context", costs.context},
          {"multiplied", dtype_name(costs.multiplied)},
          {"steps", std::move(steps)},
          {"picojoules_per_byte", column.prices.per_byte},
          {"picojoules_per_mac", column.prices.per_mac},
          {"energy_source", column.prices.source}};
}

}  // namespace

Number TableRow::ratio() const {
  // A missing value is not 0: a ratio with it would be misleading.
  if (!comparable || !value || !baseline || *baseline == 0) return std::nullopt;
  return *value / *baseline;
}

ModelTable model_table(TableColumn model, std::optional<TableColumn> baseline) {
  ModelTable table{std::move(model), std::move(baseline), {}};
  for (const Metric& metric : kMetrics)
    table.rows.push_back({std::string(metric.name), std::string(metric.label), metric.unit,
                          metric.value(table.model),
                          table.baseline ? metric.value(*table.baseline) : std::nullopt,
                          !table.baseline || same_step(metric, table.model, *table.baseline)});
  return table;
}

std::string table_text(const ModelTable& table) {
  std::string text = fmt::format("{:<38}{:>14}", "", "model");
  if (table.baseline) text += fmt::format("{:>14}{:>10}", "baseline", "ratio");
  text += '\n';
  for (const TableRow& row : table.rows) {
    text += fmt::format("{:<38}{:>14}", row.label, text_of(row.value, row.unit));
    if (table.baseline)
      text += fmt::format("{:>14}{:>10}", text_of(row.baseline, row.unit), ratio_text(row));
    text += '\n';
  }
  return text + footnotes(table);
}

std::string table_markdown(const ModelTable& table) {
  std::string text = table.baseline ? "| | model | baseline | ratio |\n|---|---:|---:|---:|\n"
                                    : "| | model |\n|---|---:|\n";
  for (const TableRow& row : table.rows) {
    text += fmt::format("| {} | {} |", row.label, text_of(row.value, row.unit));
    if (table.baseline)
      text += fmt::format(" {} | {} |", text_of(row.baseline, row.unit), ratio_text(row));
    text += '\n';
  }
  std::string notes = footnotes(table);
  // In Markdown, a single line end does not separate paragraphs. The text ends with a line end, at
  // which the loop stops, so find() never returns npos. Each step skips both inserted line ends.
  for (size_t at = 0; (at = notes.find('\n', at)) + 1 < notes.size(); at += 2)
    notes.replace(at, 1, "\n\n");
  return text + "\n" + notes;
}

std::string table_csv(const ModelTable& table) {
  // "{}" prints the shortest text that round-trips, so the file loses no digits.
  const auto cell = [](const Number& number) { return number ? fmt::format("{}", *number) : ""; };
  std::string text = "metric,unit,model,baseline,ratio\n";
  for (const TableRow& row : table.rows)
    text += fmt::format("{},{},{},{},{}\n", row.metric, enum_name(row.unit), cell(row.value),
                        cell(row.baseline), cell(row.ratio()));
  return text;
}

nlohmann::ordered_json table_json(const ModelTable& table) {
  nlohmann::ordered_json json = {{"model", column_json(table.model)}};
  if (table.baseline) json["baseline"] = column_json(*table.baseline);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const TableRow& row : table.rows)
    rows.push_back({{"metric", row.metric},
                    {"unit", enum_name(row.unit)},
                    {"value", number_json(row.value)},
                    {"baseline", number_json(row.baseline)},
                    {"ratio", number_json(row.ratio())}});
  json["rows"] = std::move(rows);
  return json;
}

namespace {

int64_t sum_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

double used_part(std::span<const int64_t> selections) {
  if (selections.empty()) return 0;
  const auto experts = static_cast<double>(selections.size());
  const double least = kUsedShare * static_cast<double>(sum_of(selections)) / experts;
  // `count > 0` matters for a layer without selections, in which `least` is 0.
  const auto used = std::count_if(selections.begin(), selections.end(), [&](int64_t count) {
    return count > 0 && static_cast<double>(count) > least;
  });
  return static_cast<double>(used) / experts;
}

LoadBalance balance_of(const Analysis& analysis) {
  LoadBalance mean;
  double layers = 0;
  for (size_t i = 0; i < analysis.layers.size(); ++i) {
    const LayerProfile& layer = analysis.profile.layers[i];
    // A layer without tokens has no load; it would lower the means.
    if (layer.tokens == 0) continue;
    ++layers;
    // Less than top-k if the router picked null experts, which have no counts.
    mean.experts_a_token +=
        static_cast<double>(sum_of(layer.selections)) / static_cast<double>(layer.tokens);
    mean.used += used_part(layer.selections);
    mean.gini += analysis.layers[i].gini;
    mean.entropy_bits += analysis.layers[i].entropy_bits;
  }
  for (double* value : {&mean.experts_a_token, &mean.used, &mean.gini, &mean.entropy_bits})
    // max() avoids a division by zero if no layer has tokens.
    *value /= std::max(1.0, layers);
  const double most = std::log2(static_cast<double>(analysis.profile.experts));
  // log2(1) is 0: a single expert always has an even load.
  mean.entropy_share = most > 0 ? mean.entropy_bits / most : 1;
  return mean;
}

}  // namespace moec
