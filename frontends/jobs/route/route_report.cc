#include "frontends/jobs/route/route_report.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace moec {
namespace {

using nlohmann::ordered_json;

std::string head_of(const std::string& name, const std::string& type, const std::string& help) {
  return fmt::format("# HELP moec_route_{0} {1}\n# TYPE moec_route_{0} {2}\n", name, help, type);
}

}  // namespace

ordered_json nodes_json(const NodePool& pool, const SessionPins& pins) {
  auto nodes = ordered_json::array();
  const std::vector<NodeState> states = pool.states();
  for (size_t i = 0; i < states.size(); ++i) {
    const NodeState& state = states[i];
    auto gates = ordered_json::parse(state.gates, nullptr, /*allow_exceptions=*/false);
    nodes.push_back({{"name", pool.node(i).name},
                     {"url", pool.node(i).url},
                     {"up", state.up},
                     {"draining", state.draining},
                     {"sessions", pins.count(i)},
                     {"running", state.running},
                     {"requests", state.requests},
                     {"failures", state.failures},
                     {"failovers", state.failovers},
                     {"gates", gates.is_object() ? gates : ordered_json()}});
  }
  return {{"nodes", nodes}};
}

std::string metrics_text(const NodePool& pool, const SessionPins& pins,
                         const RouteCounters& counters) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& help, int64_t value) {
    text += head_of(name, "counter", help) + fmt::format("moec_route_{} {}\n", name, value);
  };
  add("requests_total", "Completion requests.", counters.requests);
  add("probes_total", "New sessions whose node was chosen by a probe.", counters.probes);
  add("refused_total", "Requests refused with status 429.", counters.refused);
  const std::vector<NodeState> states = pool.states();
  const auto by_node = [&](const std::string& name, const std::string& type,
                           const std::string& help, const std::function<int64_t(size_t)>& value) {
    text += head_of(name, type, help);
    for (size_t i = 0; i < states.size(); ++i)
      text += fmt::format("moec_route_{}{{node=\"{}\"}} {}\n", name, pool.node(i).name, value(i));
  };
  by_node("node_up", "gauge", "1 if the node answers.", [&](size_t i) { return states[i].up; });
  by_node("node_draining", "gauge", "1 if the node gets no new requests.",
          [&](size_t i) { return states[i].draining; });
  by_node("node_sessions", "gauge", "Sessions pinned to the node.",
          [&](size_t i) { return static_cast<int64_t>(pins.count(i)); });
  by_node("node_running", "gauge", "Requests in progress at the node.",
          [&](size_t i) { return states[i].running; });
  by_node("node_requests_total", "counter", "Requests sent to the node.",
          [&](size_t i) { return states[i].requests; });
  by_node("node_failures_total", "counter", "Requests that the node did not answer.",
          [&](size_t i) { return states[i].failures; });
  by_node("node_failovers_total", "counter", "Requests that moved from the node to another one.",
          [&](size_t i) { return states[i].failovers; });
  return text;
}

}  // namespace moec
