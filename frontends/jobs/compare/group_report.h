// The report of a comparison of groups of experts, as JSON (ir/base/report_json.h) and as
// a table.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/compare/group_scores.h"

namespace moec {

// Compares what an export predicts with groups of its experts, or what another export of its
// checkpoint predicts, with what it predicts with all of its experts.

struct CompareGroupsOptions {
  std::string reference;           // an exported folder
  std::string against;             // another one; empty: none, the groups are of the reference
  std::string groups;              // a JSON file (ir/experts/expert_groups.h); may be empty
  std::string prompts;             // a suite: "default", or a file; empty: texts or tokens
  std::vector<std::string> texts;  // files, each a document
  std::string tokens_file;         // or token ids, one document
  int64_t window = 256;            // tokens that see one another, at most what the exports take
  SessionOptions session;
  // Told of the bytes of tokens that went through, and of those of all. May be empty.
  std::function<void(uint64_t bytes, uint64_t total)> progress;
};

struct ComparedGroup {
  std::string name;                   // of the group; the folder of an export
  std::string experts;                // as text; empty: all
  std::vector<CategoryScore> scores;  // of all documents, then by category
};

struct GroupReport {
  std::string reference, compared;  // folders
  int64_t window = 0;
  std::vector<ComparedGroup> groups;  // first the other export with all experts, if there is one
  Diagnostics findings;
  bool passed = false;  // no finding is an error
};

// Each window of a document runs alone, and then once for each group, whose experts are all that
// its tokens can choose. Logits that are NaN or infinite are a finding compare.nonfinite. Errors:
// compare.checkpoint (the exports are not of one checkpoint), compare.nothing (neither groups nor
// another export), those of parse_expert_groups() and check_enough(), those of the documents as
// compare.…, those of Session.
Result<GroupReport> compare_groups(const CompareGroupsOptions& options);

nlohmann::ordered_json group_report_json(const GroupReport& report);

// The figures, the findings, and whether all is well, in lines.
std::string group_table(const GroupReport& report);

}  // namespace moec
