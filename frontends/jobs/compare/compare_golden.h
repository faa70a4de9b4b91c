// Compares an export with what PyTorch computed for its checkpoint: what the compression and the
// forms of its shards cost together.
#pragma once

#include <string>
#include <vector>

#include "frontends/jobs/compare/compare_report.h"
#include "frontends/measure/golden.h"

namespace moec {

struct CompareGoldenOptions {
  std::string compared;  // an exported folder
  SessionOptions session;
  CompareLimits limits;
  std::vector<ComparedShard> shards;  // each alone on golden inputs, as a validation measures them
};

// Runs the golden's steps as one text in one window. Experts have no golden outputs and are not
// compared. Errors: those of Golden and Session.
Result<CompareReport> compare_with_golden(const Golden& golden,
                                          const CompareGoldenOptions& options);

}  // namespace moec
