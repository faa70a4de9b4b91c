// Compares an export that uses only a group of its experts, or another export of its checkpoint,
// with the export that uses all of its experts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/compare/group_report.h"
#include "ir/base/share.h"

namespace moec {

struct CompareGroupsOptions {
  std::string reference;           // an exported folder
  std::string against;             // another export; empty: the groups apply to the reference
  std::string groups;              // a JSON file (ir/experts/expert_groups.h); may be empty
  std::string prompts;             // a suite: "default", or a file; empty: texts or tokens
  std::vector<std::string> texts;  // files, one document each
  std::string tokens_file;         // or a file of token ids, one document
  int64_t window = 256;            // tokens per window, at most the maximum of the exports
  std::optional<JobShare> part;    // compare only these documents
  std::vector<std::string> join;   // reports of parts (group_part.h), whose documents are not run
  SessionOptions session;
  // Receives the tokens processed since its previous call, and the total. May be empty.
  std::function<void(uint64_t tokens, uint64_t total)> progress;
};

// Runs each window of a document with all experts, and once per group with all other experts
// masked. Logits that are NaN or infinite are a finding compare.nonfinite. Errors:
// compare.checkpoint (the exports are of different checkpoints), compare.nothing (neither groups
// nor another export), those of parse_expert_groups() and check_enough(), those of
// read_documents(), of read_group_part() and of Session.
Result<GroupReport> compare_groups(const CompareGroupsOptions& options);

}  // namespace moec
