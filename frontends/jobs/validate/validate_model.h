// Golden validation: compares what the emitted files of an export compute with what the reference
// implementation computed. Each shard runs alone on golden inputs, then all run chained from tokens
// to logits, and then the model writes greedy text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/validate/thresholds.h"
#include "frontends/measure/golden.h"
#include "frontends/measure/metrics.h"

namespace moec {

struct ShardReport {
  std::string shard;
  Thresholds thresholds;                   // by the fewest bits of its weights
  Comparison alone;                        // the output on golden inputs
  std::optional<Comparison> cache;         // attention: its new K and V rows on golden inputs
  std::optional<RouterComparison> router;  // on golden inputs
  Comparison chained;                      // the output on the computed outputs of earlier shards
  bool passed = false;
};

struct ValidationReport {
  std::string engine, device;  // EngineTraits::name, device
  Precision precision = Precision::f32;
  bool exact = true;                           // whether the routing form is exact, by the manifest
  Thresholds thresholds;                       // of the whole model, by its fewest bits
  std::vector<ShardReport> shards;             // those with a golden output, in schedule order
  LogitComparison logits;                      // chained
  size_t greedy_equal = 0, greedy_wanted = 0;  // leading tokens of the golden greedy text
  std::string top_k;                           // describe_top_k()
  std::optional<CapacityDrops> drops;          // of an export with a capacity
  bool passed = false;
  Diagnostics notes;  // note_precision(), and validate.masked where the session has a mask
};

// With Precision::f16 every op rounds its result to f16. A shard whose weights are in codes has the
// thresholds of the fewest bits among them; else those of 16 bits apply to an export in f16 and
// with Precision::f16, and those of 32 bits otherwise. A result below a threshold is no error: it
// is in the report. Errors: validate.masked (the export has a mask, but the options have none),
// golden.other_model, golden.other_top_k, golden.missing, validate.no_router, those of
// Session.
Result<ValidationReport> validate_model(const std::string& folder, const Golden& golden,
                                        const SessionOptions& options,
                                        const ThresholdTable& thresholds);

}  // namespace moec
