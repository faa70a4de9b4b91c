#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/residency/changes_json.h"
#include "frontends/jobs/residency/simulate_trace.h"
#include "frontends/measure/unit_chart.h"
#include "ir/base/at.h"
#include "ir/base/byte_text.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

// One color per policy; dashes mark the offline optimum (belady).
constexpr svg::Stroke kPolicyStrokes[enum_count<SimulatedPolicy>] = {
    {"#962335", 2.2, ""},
    {"#2f6f9f", 2.2, ""},
    {"#d1702e", 2.2, ""},
    {"#4d8b31", 2.2, ""},
    {"#555", 1.6, "stroke-dasharray=\"5,4\""}};

double bytes_per_token(const Simulation& simulation, const CacheCounts& counts) {
  // Loads times bytes may exceed int64_t, so the product is a double.
  return static_cast<double>(counts.loads) * static_cast<double>(*simulation.expert_bytes) /
         static_cast<double>(simulation.tokens);
}

// A table with one line per capacity and one column per policy.
template <class Cell>
std::string policy_table(const Simulation& simulation, const std::string& title, Cell cell) {
  const size_t columns = simulation.cache.policies.size();
  std::string out = title + "\n  slots";
  for (const SimulatedPolicy policy : simulation.cache.policies)
    out += fmt::format("{:>12}", enum_name(policy));
  for (size_t i = 0; i < simulation.points.size(); ++i) {
    // Points are ordered by slots, then policy, so a row begins every `columns` points.
    if (i % columns == 0) out += fmt::format("\n{:>7}", simulation.points[i].slots);
    out += fmt::format("{:>12}", cell(simulation.points[i].counts));
  }
  return out + "\n";
}

// One line per policy and capacity whose hit rate indicates a change of domain.
std::string changes_lines(const Simulation& simulation) {
  std::string out;
  for (const auto& [policy, slots, counts, changes] : simulation.points) {
    if (changes.empty()) continue;
    out += fmt::format("\n  {} with {} slots: change of domain at token", enum_name(policy), slots);
    for (const DomainChange& change : changes) out += fmt::format(" {}", change.token);
  }
  return out.empty() ? out : out + "\n";
}

}  // namespace

std::string simulation_table(const Simulation& simulation) {
  const SimulatedCache& cache = simulation.cache;
  std::string out = fmt::format(
      "{} tokens, {} layers, {} experts; a step of {} token{} needs up to {} per layer\n",
      simulation.tokens, simulation.layers, simulation.experts, cache.tokens,
      cache.tokens == 1 ? "" : "s", simulation.largest_step);
  const char* slots = cache.pool ? "slots per layer, pooled" : "slots per layer";
  out += policy_table(
      simulation, fmt::format("\nhits as a share of all uses ({})", slots),
      [](const CacheCounts& counts) { return fmt::format("{:.2f} %", 100 * counts.hit_rate()); });
  out += changes_lines(simulation);
  if (!simulation.expert_bytes) return out;
  return out + policy_table(simulation,
                            fmt::format("\nread per token, with {} per expert",
                                        decimal_bytes(*simulation.expert_bytes)),
                            [&](const CacheCounts& counts) {
                              return decimal_bytes(bytes_per_token(simulation, counts));
                            });
}

std::string simulation_svg(const Simulation& simulation) {
  const auto experts = static_cast<double>(simulation.experts);
  svg::UnitChart chart("Hit rates of expert caches",
                       simulation.cache.pool ? "slots per layer, pooled" : "slots per layer",
                       experts);
  for (const SimulatedPolicy policy : simulation.cache.policies) {
    std::vector<svg::Point> points;
    for (const SimulatedPoint& point : simulation.points)
      // More slots than experts lie outside the chart.
      if (point.policy == policy && point.slots <= simulation.experts)
        points.push_back(svg::UnitChart::place(static_cast<double>(point.slots) / experts,
                                               point.counts.hit_rate()));
    const svg::Stroke& stroke = at(kPolicyStrokes, policy);
    chart.draw(points, stroke);
    chart.explain(stroke, enum_name(policy));
  }
  return chart.picture();
}

nlohmann::ordered_json simulation_json(const Simulation& simulation) {
  using nlohmann::ordered_json;
  auto points = ordered_json::array();
  for (const auto& [policy, slots, counts, changes] : simulation.points) {
    ordered_json point = {{"policy", enum_name(policy)},   {"slots", slots},
                          {"uses", counts.uses},           {"hits", counts.hits()},
                          {"loads", counts.loads},         {"first_uses", counts.first_uses},
                          {"hit_rate", counts.hit_rate()}, {"warm_rate", counts.warm_rate()}};
    if (!changes.empty()) point["domain_changes"] = changes_json(changes);
    if (simulation.expert_bytes) point["bytes_per_token"] = bytes_per_token(simulation, counts);
    points.push_back(std::move(point));
  }
  ordered_json fields = {{"tokens", simulation.tokens},
                         {"layers", simulation.layers},
                         {"experts", simulation.experts},
                         {"step_tokens", simulation.cache.tokens},
                         {"largest_step", simulation.largest_step},
                         {"pool", simulation.cache.pool}};
  if (simulation.expert_bytes) fields["expert_bytes"] = *simulation.expert_bytes;
  fields["points"] = std::move(points);
  return report_json(true, fields);
}

}  // namespace moec
