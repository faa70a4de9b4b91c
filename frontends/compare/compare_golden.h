// Compares an export with what PyTorch computed for its checkpoint: what the compression and the
// forms of its shards cost together.
#pragma once

#include <string>

#include "frontends/compare/compare_report.h"
#include "frontends/validate/golden.h"

namespace moec {

struct CompareGoldenOptions {
  std::string golden;    // the folder of a golden, the reference
  std::string compared;  // an exported folder
  SessionOptions session;
  CompareLimits limits;
};

// The steps of the golden are one text, and one window. Shards run alone on golden inputs, as in a
// validation; experts have no golden outputs and are left out. Errors: those of Golden,
// validate_model() and Session.
Result<CompareReport> compare_with_golden(const CompareGoldenOptions& options);

}  // namespace moec
