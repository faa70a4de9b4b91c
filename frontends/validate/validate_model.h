// Golden validation: compares what the emitted files of an export compute with what the reference
// implementation computed. Each shard runs alone on golden inputs, then all run chained from tokens
// to logits, and then the model writes greedy text.
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
  std::optional<Comparison> cache;         // attention: its new K and V rows on golden inputs
  std::optional<RouterComparison> router;  // on golden inputs
  Comparison chained;                      // the output on the computed outputs of earlier shards
  bool passed = false;
};

struct ValidationReport {
  Precision precision = Precision::f32;
  bool exact = true;  // whether the routing form is exact, by the manifest
  Thresholds thresholds = kF32Thresholds;
  std::vector<ShardReport> shards;             // those with a golden output, in schedule order
  LogitComparison logits;                      // chained
  size_t greedy_equal = 0, greedy_wanted = 0;  // leading tokens of the golden greedy text
  bool passed = false;
  Diagnostics notes;  // note_precision()
};

// With Precision::f16 every op rounds its result to f16. The f16 thresholds apply then, and for an
// export in f16. A result below a threshold is no error: it is in the report. Errors:
// golden.other_model, golden.missing, validate.no_router, those of Session.
Result<ValidationReport> validate_model(const std::string& folder, const Golden& golden,
                                        const SessionOptions& options);

}  // namespace moec
