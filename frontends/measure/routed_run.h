// Runs the text of an analysis through an export and counts the experts that routers choose.
#pragma once

#include <set>
#include <string>

#include "backends/runtime/session/session.h"
#include "frontends/measure/measurement.h"

namespace moec {

// Steps to run.
enum class RoutedSteps : uint8_t {
  all,
  trunk,  // without the head and groups of routed experts
};

struct RoutedRun {
  std::vector<LayerMeasurement> layers;  // selections, mass and choices, by ascending layer
  int64_t bytes = 0;  // weight bytes of the shards that ran; each shard counts once
};

// Returns true if RoutedSteps::trunk skips the step because it computes only routed experts.
bool is_expert_step(const Manifest& manifest, const manifest::Step& step);

// Errors: those of Session, analyze.no_router, analyze.interrupted.
Result<RoutedRun> run_routed(Session& session, const AnalyzeOptions& options, const Text& text,
                             RoutedSteps steps);

}  // namespace moec
