// Reports of compare_groups() as JSON (ir/base/report_json.h) and as a table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/compare/group_scorer.h"
#include "ir/base/diagnostics.h"
#include "ir/base/share.h"

namespace moec {

struct ComparedGroup {
  std::string name;                      // name of the group, or the folder of a whole export
  std::string experts;                   // sets as text; empty: all
  std::vector<CategoryScore> scores;     // over all documents, then per category
  std::vector<DocumentScore> documents;  // ordered by number
};

struct GroupReport {
  std::string reference, compared;  // folders
  int64_t window = 0;
  std::string inputs;                 // digest of the exports, the documents and the arithmetic
  std::optional<JobShare> part;       // then the report covers only its documents
  std::vector<ComparedGroup> groups;  // starts with the other export with all experts, if given
  Diagnostics findings;
  bool passed = false;  // true if no finding is an error
};

// With a part, also contains the scores of each document.
nlohmann::ordered_json group_report_json(const GroupReport& report);

// Returns a human-readable table with scores, findings and the result.
std::string group_table(const GroupReport& report);

}  // namespace moec
