// Chooses the group of experts that should serve a text, based on the text's first tokens, and
// measures the quality of such choices.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/compare/probe_report.h"

namespace moec {

struct ProbeOptions {
  std::string model;  // an exported folder
  std::string
      groups;  // a JSON file (ir/experts/expert_groups.h); empty: the groups of the export's table
  std::optional<ProbeScore>
      score;                       // default: `table` for the groups of the table, `mass` otherwise
  std::string prompt;              // a text without continuation; empty: documents
  std::string prompts;             // a suite: "default", or a file; empty: texts or tokens
  std::vector<std::string> texts;  // files, one document each
  std::string tokens_file;         // or a file of token ids, one document
  std::optional<int64_t> prefill;  // tokens before the choice; default: the table's, or 32
  int64_t window = 256;            // maximum tokens per document, at most the export's maximum
  SessionOptions session;
  // Receives the number of finished documents, and the total. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// Runs the whole model on the first tokens of each document. If more tokens follow, also runs the
// document once per group with all other experts masked. Errors:
//   probe.no_table      the export has no table, and no groups or ProbeScore::table were given
//   probe.other_groups  ProbeScore::table was given, and the table has other groups
//   probe.no_routing    the graphs do not name their routing weights
//   probe.nonfinite
// those of read_expert_groups(), read_probe_table(), read_documents() and Session.
Result<ProbeReport> probe_groups(const ProbeOptions& options);

// Writes the report's table into the probed export as kProbeTableFile and lists it in the manifest.
// Replaces an earlier table. Errors: those of probe_table_of(), and of reading and writing a
// manifest.
Status write_probe_table(const ProbeReport& report, const std::string& folder);

}  // namespace moec
