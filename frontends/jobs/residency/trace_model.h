// `moec trace`: writes the experts that the tokens of a text pick.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "backends/residency/expert_trace.h"
#include "frontends/measure/analyze_options.h"
#include "ir/experts/expert_profile.h"

namespace moec {

struct TraceOptions {
  AnalyzeOptions run;  // model and text; `folder` and other output files are ignored
  std::string file;
  bool force = false;  // replace an existing file
  TraceForm form = TraceForm::csv;
};

struct TraceReport {
  std::string file;
  TraceForm form = TraceForm::csv;
  int64_t layers = 0, tokens = 0, windows = 0, rows = 0;
  Diagnostics notes;
};

// Writes rows in the order of token-by-token execution: by token, layer and expert. Token numbers
// continue across windows. Errors: those of measure_checkpoint() and measure_export(), trace.write,
// trace.size (too many tokens or experts for a trace).
Result<TraceReport> trace_model(const TraceOptions& options);

nlohmann::ordered_json trace_json(const TraceReport& report);

}  // namespace moec
