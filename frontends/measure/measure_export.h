// Measures the experts of an export by what its graphs show. Routing weights have a name in each
// graph; the outputs of experts only where each expert is computed on its own.
#pragma once

#include "frontends/measure/measurement.h"

namespace moec {

// Errors: those of Session and read_analysis_text(); analyze.no_experts, analyze.no_router (the
// graphs do not name the routing weights), analyze.nonfinite, analyze.interrupted. Note
// analyze.no_outputs where outputs are not told.
Result<Measurement> measure_export(const AnalyzeOptions& options);

}  // namespace moec
