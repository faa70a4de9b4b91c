// Results of a golden validation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/validate/thresholds.h"
#include "frontends/measure/metrics.h"
#include "frontends/measure/value_errors.h"

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
  ValueErrors inside;                          // outputs that the golden contains, on golden inputs
  bool passed = false;
  Diagnostics notes;  // note_precision(), and validate.masked if the session has a mask
};

}  // namespace moec
