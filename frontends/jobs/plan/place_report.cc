#include "frontends/jobs/plan/place_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/base/byte_text.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

std::string node_name(const PlacedNodes& placed, size_t node) {
  const std::string& group = placed.groups[placed.nodes.group_of(node)].name;
  // Without stages, nodes are groups, and their names stay short.
  return placed.nodes.stages.size() == 1
             ? group
             : fmt::format("stage{}.{}", placed.nodes.stage_of(node), group);
}

ordered_json nodes_json(const PlacedNodes& placed) {
  auto nodes = ordered_json::array();
  for (size_t node = 0; node < placed.nodes.nodes(); ++node) {
    const size_t group = placed.nodes.group_of(node);
    const ClusterNode& machine = placed.nodes.machines[node];
    ordered_json json = {{"name", node_name(placed, node)},
                         {"stage", placed.nodes.stage_of(node)},
                         {"group", placed.groups[group].name},
                         {"experts", placed.nodes.slots[group]},
                         {"bytes", placed.nodes.bytes(node)}};
    if (!machine.name.empty()) json["machine"] = machine.name;
    // 0 means that the memory of the node is not given.
    if (machine.memory > 0) json["memory_bytes"] = machine.memory;
    if (!placed.kept.empty()) json["kept"] = placed.kept[group];
    nodes.push_back(std::move(json));
  }
  return nodes;
}

ordered_json class_json(const PlacedNodes& placed, const ClassForecast& prompts) {
  auto groups = ordered_json::array();
  for (size_t group = 0; group < placed.groups.size(); ++group) {
    const GroupForecast& forecast = prompts.groups[group];
    ordered_json json = {{"group", placed.groups[group].name}};
    // Without a profile, the share is an assumption.
    if (!placed.kept.empty()) json["kept"] = forecast.kept;
    if (forecast.tokens_per_second) json["tokens_per_second"] = *forecast.tokens_per_second;
    if (!prompts.kl.empty() && prompts.kl[group]) json["kl"] = *prompts.kl[group];
    groups.push_back(std::move(json));
  }
  return {{"name", prompts.name}, {"groups", std::move(groups)}};
}

ordered_json forecast_json(const PlacedNodes& placed) {
  auto classes = ordered_json::array(), counts = ordered_json::array();
  for (const ClassForecast& prompts : placed.classes)
    classes.push_back(class_json(placed, prompts));
  for (const NodeCount& count : placed.counts) {
    ordered_json json = {{"nodes", count.nodes},
                         {"least_experts", count.least},
                         {"most_experts", count.most},
                         {"copies", count.copies}};
    if (count.tokens_per_second) json["tokens_per_second"] = *count.tokens_per_second;
    counts.push_back(std::move(json));
  }
  return {{"on_miss", enum_name(placed.miss)},
          {"classes", std::move(classes)},
          {"counts", std::move(counts)}};
}

// The group that keeps most of the class. It also has the lowest KL, which does not decrease with
// the lost share.
size_t best_group(const ClassForecast& prompts) {
  const auto best = std::max_element(
      prompts.groups.begin(), prompts.groups.end(),
      [](const GroupForecast& a, const GroupForecast& b) { return a.kept < b.kept; });
  return static_cast<size_t>(best - prompts.groups.begin());
}

std::string rate_text(const std::optional<double>& rate) {
  return rate ? fmt::format("{:.1f}", *rate) : "-";
}

bool has_names(const PlacedNodes& placed) { return !placed.nodes.machines.front().name.empty(); }
bool has_rates(const PlacedNodes& placed) {
  return !placed.classes.empty() && placed.classes.front().groups.front().tokens_per_second;
}

std::string node_rows(const PlacedNodes& placed) {
  std::string text = fmt::format("{:<16} {:>9} {:>8} {:>10}", "node", "layers", "experts", "bytes");
  if (!placed.kept.empty()) text += fmt::format(" {:>7} {:>10}", "kept", "as ranges");
  if (has_rates(placed)) text += fmt::format(" {:>9}", "tokens/s");
  if (has_names(placed)) text += "  machine";
  text += '\n';
  for (size_t node = 0; node < placed.nodes.nodes(); ++node) {
    const Stage& stage = placed.nodes.stages[placed.nodes.stage_of(node)];
    const size_t group = placed.nodes.group_of(node);
    text += fmt::format("{:<16} {:>9} {:>8} {:>10}", node_name(placed, node),
                        fmt::format("{}-{}", stage.first, stage.last), placed.nodes.slots[group],
                        decimal_bytes(placed.nodes.bytes(node)));
    if (!placed.kept.empty())
      text += fmt::format(" {:>5.1f} % {:>8.1f} %", 100 * placed.kept[group],
                          100 * placed.kept_by_ranges[group]);
    if (has_rates(placed))
      text +=
          fmt::format(" {:>9}", rate_text(placed.classes.front().groups[group].tokens_per_second));
    if (has_names(placed)) text += "  " + placed.nodes.machines[node].name;
    text += '\n';
  }
  return text;
}

std::string class_rows(const PlacedNodes& placed) {
  // Without several classes or another policy, the table of nodes has the same numbers.
  const bool has_kl = std::any_of(placed.classes.begin(), placed.classes.end(),
                                  [](const ClassForecast& own) { return !own.kl.empty(); });
  if (placed.kept.empty() || (placed.classes.size() < 2 && !has_kl)) return {};
  std::string text = fmt::format("\n{:<16} {:<10} {:>7}", "class", "best group", "kept");
  if (has_rates(placed)) text += fmt::format(" {:>9}", "tokens/s");
  if (has_kl) text += fmt::format(" {:>8}", "KL");
  text += '\n';
  for (const ClassForecast& prompts : placed.classes) {
    const size_t best = best_group(prompts);
    const GroupForecast& group = prompts.groups[best];
    text += fmt::format("{:<16} {:<10} {:>5.1f} %", prompts.name, placed.groups[best].name,
                        100 * group.kept);
    if (has_rates(placed)) text += fmt::format(" {:>9}", rate_text(group.tokens_per_second));
    if (has_kl)
      text += !prompts.kl.empty() && prompts.kl[best] ? fmt::format(" {:>8.4f}", *prompts.kl[best])
                                                      : fmt::format(" {:>8}", "-");
    text += '\n';
  }
  return text;
}

std::string count_rows(const PlacedNodes& placed) {
  if (placed.counts.empty()) return {};
  std::string text =
      fmt::format("\n{:>5} {:>12} {:>8} {:>9}\n", "nodes", "experts", "copies", "tokens/s");
  for (const NodeCount& count : placed.counts)
    text += fmt::format("{:>5} {:>12} {:>8.2f} {:>9}\n", count.nodes,
                        fmt::format("{}-{}", count.least, count.most), count.copies,
                        rate_text(count.tokens_per_second));
  return text;
}

std::string notes(const PlacedNodes& placed) {
  if (placed.kept.empty())
    return "\nplaced by memory alone; pass a --profile of moec analyze to group experts that are "
           "picked together\n";
  std::string text =
      "\nkept: share of the routing mass on the profile's text; lower on other texts\n";
  const bool is_measured = std::any_of(placed.classes.begin(), placed.classes.end(),
                                       [](const ClassForecast& own) { return !own.kl.empty(); });
  if (is_measured)
    text += "KL: nats per token, from the reports; - is outside of the measured shares\n";
  else if (has_names(placed) && placed.miss != NodeMiss::skip)
    text +=
        "KL is unknown; measure groups with moec compare OUT --groups FILE --prompts SUITE --json "
        "and pass the report as --kl\n";
  return text;
}

}  // namespace

std::string placement_text(const PlacedNodes& placed) {
  auto stages = ordered_json::array(), groups = ordered_json::array();
  for (const Stage& stage : placed.nodes.stages)
    // Inclusive ranges, as `moec split --place` reads them.
    stages.push_back(fmt::format("{}-{}", stage.first, stage.last));
  for (const ExpertGroup& group : placed.groups)
    groups.push_back({{"name", group.name}, {"experts", to_string(group.experts)}});
  ordered_json json = {{"format", "moec.placement"},  {"version", 1},
                       {"model", placed.family},      {"experts", placed.grid.experts},
                       {"top_k", placed.grid.top_k},  {"stages", std::move(stages)},
                       {"groups", std::move(groups)}, {"nodes", nodes_json(placed)}};
  if (!placed.classes.empty() || !placed.counts.empty()) json["forecast"] = forecast_json(placed);
  return json_text(json, 1) + "\n";
}

std::string placement_table(const PlacedNodes& placed) {
  std::string text =
      fmt::format("{} ({}): {} MoE layers of {} experts, top-k {}\n\n", placed.source,
                  placed.family, placed.grid.layers.size(), placed.grid.experts, placed.grid.top_k);
  if (placed.miss != NodeMiss::mask)
    text += fmt::format("missing experts: {}\n", enum_name(placed.miss));
  return text + node_rows(placed) + class_rows(placed) + count_rows(placed) +
         (placed.change ? change_table(*placed.change) : notes(placed));
}

}  // namespace moec
