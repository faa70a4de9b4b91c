// Runs the text of an analysis through an export, and counts what its routers choose.
#pragma once

#include <set>
#include <string>

#include "backends/runtime/session/session.h"
#include "frontends/measure/measurement.h"

namespace moec {

// Which steps of the schedule run.
enum class RoutedSteps : uint8_t {
  all,
  trunk,  // no head, and no groups of routed experts
};

struct RoutedRun {
  std::vector<LayerMeasurement> layers;  // selections, mass and choices; ascending
  int64_t bytes = 0;                     // of the weights of the shards that ran, each once
};

// Whether the step computes routed experts alone, so that the trunk passes it by.
bool is_expert_step(const Manifest& manifest, const manifest::Step& step);

// Errors: those of Session, analyze.no_router, analyze.interrupted.
Result<RoutedRun> run_routed(Session& session, const AnalyzeOptions& options,
                             const AnalysisText& text, RoutedSteps steps);

}  // namespace moec
