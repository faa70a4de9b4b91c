// Golden validation: compares the results of an export's emitted files with those of the reference
// implementation. First, each shard runs alone on golden inputs. Then all shards run in sequence,
// from tokens to logits. Finally, the model generates greedy text.
#pragma once

#include <string>

#include "backends/runtime/session/session.h"
#include "frontends/jobs/validate/thresholds.h"
#include "frontends/jobs/validate/validation_report.h"
#include "frontends/jobs/validate/validator.h"
#include "frontends/measure/golden.h"

namespace moec {

// With Precision::f16 every op rounds its result to f16. A shard with quantized weights uses the
// thresholds of its smallest bit width. Other shards use those of 16 bits for an export in f16 or
// Precision::f16, and those of 32 bits otherwise. A missed threshold is part of the report, not an
// error. Errors: validate.masked (the export has a mask, but the options have none),
// golden.other_model, golden.other_top_k, golden.missing, validate.no_router, those of Session.
// Calls `progress` after each run of a shard.
Result<ValidationReport> validate_model(const std::string& folder, const Golden& golden,
                                        const SessionOptions& options,
                                        const ThresholdTable& thresholds,
                                        const ValidationProgress& progress = {});

}  // namespace moec
