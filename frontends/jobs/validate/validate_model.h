// Golden validation: compares the results of an export's emitted files with those of the reference
// implementation. First, each shard runs alone on golden inputs. Then all shards run in sequence,
// from tokens to logits. Finally, the model generates greedy text.
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
  Thresholds thresholds;                   // for the smallest bit width of its weights
  Comparison alone;                        // output of a run on golden inputs
  std::optional<Comparison> cache;         // attention: new K and V rows on golden inputs
  std::optional<RouterComparison> router;  // on golden inputs
  Comparison chained;                      // output on the outputs of earlier shards
  bool passed = false;
};

struct ValidationReport {
  std::string engine, device;  // EngineTraits::name, device
  Precision precision = Precision::f32;
  bool exact = true;                           // the manifest's form of routing is exact
  Thresholds thresholds;                       // for the smallest bit width of the whole model
  std::vector<ShardReport> shards;             // shards with a golden output, in schedule order
  LogitComparison logits;                      // chained
  size_t greedy_equal = 0, greedy_wanted = 0;  // leading tokens of the golden greedy text
  std::string top_k;                           // describe_top_k()
  std::optional<CapacityDrops> drops;          // set if the export has a capacity
  bool passed = false;
  Diagnostics notes;  // note_precision(), and validate.masked if the session has a mask
};

// With Precision::f16 every op rounds its result to f16. A shard with quantized weights uses the
// thresholds of its smallest bit width. Other shards use those of 16 bits for an export in f16 or
// Precision::f16, and those of 32 bits otherwise. A missed threshold is part of the report, not an
// error. Errors: validate.masked (the export has a mask, but the options have none),
// golden.other_model, golden.other_top_k, golden.missing, validate.no_router, those of Session.
Result<ValidationReport> validate_model(const std::string& folder, const Golden& golden,
                                        const SessionOptions& options,
                                        const ThresholdTable& thresholds);

}  // namespace moec
