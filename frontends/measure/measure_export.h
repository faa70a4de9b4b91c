// Measures the experts of an export from labelled values in its graphs. Routing weights are
// labelled in every graph; outputs of experts are labelled only if each expert is computed
// separately.
#pragma once

#include "frontends/measure/measurement.h"

namespace moec {

// Errors: those of Session and read_analysis_text(); analyze.no_experts, analyze.no_router (the
// graphs do not label the routing weights); analyze.nonfinite; analyze.interrupted. Adds the note
// analyze.no_outputs if the graphs do not label outputs of experts.
Result<Measurement> measure_export(const AnalyzeOptions& options);

}  // namespace moec
