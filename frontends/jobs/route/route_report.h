// The state of a gateway as JSON and as metrics.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/jobs/route/node_pool.h"
#include "frontends/jobs/route/session_pins.h"

namespace moec {

struct RouteCounters {
  std::atomic<int64_t> requests = 0;
  std::atomic<int64_t> probes = 0;   // new sessions whose node was chosen by asking nodes
  std::atomic<int64_t> refused = 0;  // with status 429
};

// {"nodes": [{"name", "url", "up", "draining", "sessions", "running", "requests", "failures",
// "failovers", "gates"}, …]}; gates is the node's GET /v1/gates, or null.
nlohmann::ordered_json nodes_json(const NodePool& pool, const SessionPins& pins);

// Counters and gauges in the text exposition format of Prometheus, version 0.0.4.
std::string metrics_text(const NodePool& pool, const SessionPins& pins,
                         const RouteCounters& counters);

}  // namespace moec
