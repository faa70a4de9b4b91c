// Compares an export that uses only a group of its experts, or another export of its checkpoint,
// with the export that uses all of its experts. Reports as JSON (ir/base/report_json.h) and as a
// table.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/measure/compare_metrics.h"
#include "ir/base/bootstrap.h"

namespace moec {

// Scores of the documents of one category, or of all. Means are over tokens; bounds are over
// documents.
struct CategoryScore {
  std::string category;  // empty: all categories
  size_t documents = 0;
  uint64_t tokens = 0;       // compared positions
  uint64_t nonfinite = 0;    // positions skipped because a logit is NaN or infinite
  uint64_t next_tokens = 0;  // positions with a known next token
  // Natural logarithm of the next token's probability, compared minus reference: negative if the
  // compared predictions are worse.
  BootstrapMean log_probability;
  BootstrapMean kl;    // KL(reference || compared), nats
  BootstrapMean top1;  // fraction of positions with the reference's most likely token
};

// Collects the scores of one group.
class GroupScorer {
 public:
  // Adds a position; `next` is the document's next token, if any.
  void add(std::span<const float> reference, std::span<const float> compared,
           std::optional<int64_t> next);
  // Ends a document. Call it after the last position of the document.
  void end_document(const std::string& category);
  // Scores of all documents first; then, if there are several categories, per category.
  std::vector<CategoryScore> result() const;

 private:
  struct Document {
    std::string category;
    PredictionComparison predictions;
  };
  static CategoryScore score_of(const std::string& category,
                                const std::vector<const Document*>& documents);

  PredictionComparer document_;
  std::vector<Document> documents_;
};

struct CompareGroupsOptions {
  std::string reference;           // an exported folder
  std::string against;             // another export; empty: the groups apply to the reference
  std::string groups;              // a JSON file (ir/experts/expert_groups.h); may be empty
  std::string prompts;             // a suite: "default", or a file; empty: texts or tokens
  std::vector<std::string> texts;  // files, one document each
  std::string tokens_file;         // or a file of token ids, one document
  int64_t window = 256;            // tokens per window, at most the maximum of the exports
  SessionOptions session;
  // Receives the tokens processed since its previous call, and the total. May be empty.
  std::function<void(uint64_t tokens, uint64_t total)> progress;
};

struct ComparedGroup {
  std::string name;                   // name of the group, or the folder of a whole export
  std::string experts;                // sets as text; empty: all
  std::vector<CategoryScore> scores;  // over all documents, then per category
};

struct GroupReport {
  std::string reference, compared;  // folders
  int64_t window = 0;
  std::vector<ComparedGroup> groups;  // starts with the other export with all experts, if given
  Diagnostics findings;
  bool passed = false;  // true if no finding is an error
};

// Runs each window of a document with all experts, and once per group with all other experts
// masked. Logits that are NaN or infinite are a finding compare.nonfinite. Errors:
// compare.checkpoint (the exports are of different checkpoints), compare.nothing (neither groups
// nor another export), those of parse_expert_groups() and check_enough(), those of
// read_documents(), those of Session.
Result<GroupReport> compare_groups(const CompareGroupsOptions& options);

nlohmann::ordered_json group_report_json(const GroupReport& report);

// Returns a human-readable table with scores, findings and the result.
std::string group_table(const GroupReport& report);

}  // namespace moec
