// The job of `moec trace`: writes which experts the tokens of a text choose.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "backends/residency/expert_trace.h"
#include "frontends/measure/analyze_options.h"
#include "ir/experts/expert_profile.h"

namespace moec {

struct TraceOptions {
  AnalyzeOptions run;  // what is run; `folder` and the other files are not written
  std::string file;
  bool force = false;  // replaces the file
  TraceForm form = TraceForm::csv;
};

struct TraceReport {
  std::string file;
  TraceForm form = TraceForm::csv;
  int64_t layers = 0, tokens = 0, windows = 0, rows = 0;
  Diagnostics notes;
};

// Rows are written in the order in which one token after the other would run: token, layer, expert.
// Tokens are numbered through all windows. Errors: those of measure_checkpoint() and
// measure_export(), trace.write, trace.size (more tokens or experts than a trace takes).
Result<TraceReport> trace_model(const TraceOptions& options);

nlohmann::ordered_json trace_json(const TraceReport& report);

}  // namespace moec
