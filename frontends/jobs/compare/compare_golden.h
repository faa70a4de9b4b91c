// Compares an export with PyTorch's results for its checkpoint, to measure the total cost of
// compression and of the shards' graphs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontends/jobs/compare/compare_report.h"
#include "frontends/measure/golden.h"

namespace moec {

struct CompareGoldenOptions {
  std::string compared;  // an exported folder
  SessionOptions session;
  CompareLimits limits;
  std::vector<ComparedShard> shards;  // validation results: each shard run alone on golden inputs
  // Receives the tokens run since its previous call, their total, and the golden's step. May be
  // empty.
  std::function<void(uint64_t tokens, uint64_t total, const std::string& step)> progress;
};

// Runs the golden's steps as one text in one window. Does not compare experts, which have no golden
// outputs. Errors: those of Golden and Session.
Result<CompareReport> compare_with_golden(const Golden& golden,
                                          const CompareGoldenOptions& options);

}  // namespace moec
