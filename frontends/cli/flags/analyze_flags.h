// The flags of `moec analyze`.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/flags/session_flags.h"
#include "frontends/measure/analyze_options.h"

namespace moec {

struct AnalyzeFlags {
  AnalyzeOptions options;
  SessionFlags session;
  std::string group_memory;
  bool quiet = false, json = false;
  bool with_table = false;
  TableOptions table;
};

void add_analyze_flags(CLI::App& command, AnalyzeFlags& flags);
// Subsets for other commands. add_measured_source_flags() adds SOURCE, the text flags and the flags
// of the run. add_text_run_flags() omits SOURCE and the flags that apply only to checkpoints.
void add_measured_source_flags(CLI::App& command, AnalyzeFlags& flags);
void add_text_run_flags(CLI::App& command, AnalyzeFlags& flags);

// Errors: cli.wrong_source (neither a checkpoint nor an export), cli.bytes, analyze.empty (no
// text).
Result<AnalyzeOptions> analyze_options(const AnalyzeFlags& flags);

}  // namespace moec
