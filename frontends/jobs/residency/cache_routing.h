// Simulates cache-aware routing (backends/residency/cache_choice.h) and measures its cost as the
// divergence of predictions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "frontends/jobs/residency/simulate_trace.h"
#include "frontends/measure/analyze_options.h"
#include "frontends/measure/compare_metrics.h"

namespace moec {

struct CacheRoutingOptions {
  AnalyzeOptions run;          // the source must be an export
  SimulatedCache cache;        // policies and capacities; steps have one token
  std::vector<double> biases;  // each at least 0; 0 is the model's routing
  int64_t keep_top = 1;
};

struct CacheRoutingPoint {
  SimulatedPolicy policy = SimulatedPolicy::lru;
  int64_t slots = 0;
  double bias = 0;
  CacheCounts counts;
  int64_t choices = 0, changed = 0;  // tokens × layers; choices that differ from the model's
  PredictionComparison predictions;  // relative to the model's routing
};

struct CacheRouting {
  int64_t layers = 0, experts = 0, tokens = 0;
  std::vector<CacheRoutingPoint> points;
  Diagnostics notes;
};

// Runs the text token by token for each policy, capacity and bias. Errors: those of Session and
// read_analysis_text(); simulate.policy (belady and pinned, which are not online policies),
// simulate.capacity (fewer slots than top-k), session.cache_bias.
Result<CacheRouting> simulate_cache_routing(const CacheRoutingOptions& options);

std::string cache_routing_table(const CacheRouting& report);
nlohmann::ordered_json cache_routing_json(const CacheRouting& report);

}  // namespace moec
