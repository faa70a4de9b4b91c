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
// Those that other commands have in common with it: SOURCE, the text, and how they are run; and for
// exports alone the text, and how they are run.
void add_measured_source_flags(CLI::App& command, AnalyzeFlags& flags);
void add_text_run_flags(CLI::App& command, AnalyzeFlags& flags);

// Errors: cli.wrong_source (neither a checkpoint nor an export), cli.bytes, analyze.empty (nothing
// to analyze with).
Result<AnalyzeOptions> analyze_options(const AnalyzeFlags& flags);

}  // namespace moec
