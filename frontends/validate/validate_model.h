// Golden validation: the emitted files of an export against what the reference implementation
// computed. Each shard alone on golden inputs, then chained from tokens to logits, then greedy
// text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session.h"
#include "frontends/validate/golden.h"
#include "frontends/validate/metrics.h"

namespace moec {

struct ShardReport {
  std::string shard;
  Comparison alone;                        // the output on golden inputs
  std::optional<Comparison> cache;         // attention: the new K and V rows, likewise
  std::optional<RouterComparison> router;  // likewise
  Comparison chained;                      // the output when all before it was computed too
  bool passed = false;
};

struct ValidationReport {
  Precision precision = Precision::f32;
  bool exact = true;  // the manifest's word on the routing form
  Thresholds thresholds = kF32Thresholds;
  std::vector<ShardReport> shards;             // those whose output has a golden, in schedule order
  LogitComparison logits;                      // chained
  size_t greedy_equal = 0, greedy_wanted = 0;  // leading tokens of the golden greedy text
  bool passed = false;
};

// f16 precision rounds after every op; so do the thresholds of an export in f16 apply. Errors:
// golden.other_model, golden.missing, validate.no_router, those of Session.
Result<ValidationReport> validate_model(const std::string& folder, const Golden& golden,
                                        Precision precision);

}  // namespace moec
