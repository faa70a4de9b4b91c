// Chooses, for the beginning of a text, the group of experts that is to serve the rest of it, and
// measures on texts how good such choices are.
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
      groups;  // a JSON file (ir/experts/expert_groups.h); empty: those of the export's table
  std::optional<ProbeScore> score;  // default: table where the groups are the table's, or mass
  std::string prompt;               // a text without a continuation; empty: documents
  std::string prompts;              // a suite: "default", or a file; empty: texts or tokens
  std::vector<std::string> texts;   // files, each a document
  std::string tokens_file;          // or token ids, one document
  std::optional<int64_t> prefill;   // tokens that the choice sees; default: the table's, or 32
  int64_t window = 256;             // tokens of a document that run, at most what the export takes
  SessionOptions session;
  // Told of the documents that are done, and of all. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// The whole model sees the first tokens of each document; where more tokens follow, the document
// runs once with each group alone. Errors:
//   probe.no_table      no groups were given, or a choice by table is wanted, and there is no table
//   probe.other_groups  a choice by table is wanted, and these are not its groups
//   probe.no_routing    the graphs do not name their routing weights
//   probe.nonfinite
// those of read_expert_groups() and read_probe_table(), of the documents as compare.…, and of
// Session.
Result<ProbeReport> probe_groups(const ProbeOptions& options);

// Puts the table of a report into the export that it is of, in place of an earlier one: the file
// kProbeTableFile, which the manifest then names. Errors: those of probe_table_of(), and of reading
// and writing a manifest.
Status write_probe_table(const ProbeReport& report, const std::string& folder);

}  // namespace moec
