// Maximum size of the statistics of a calibration, computed before it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/sources/family_options.h"
#include "ir/base/diagnostics.h"
#include "ir/model/plan.h"

namespace moec {

// Returns the maximum bytes per layer that calibrate_model() writes, reached if every expert gets
// tokens, in the order of layers_of(). `plan` is a result of window_plan(). Errors: those of
// tap_shard().
Result<std::vector<uint64_t>> calibrated_layer_bytes(const Plan& plan, uint64_t group_bytes);

// Returns the sum over all layers for a source of `moec plan`, with the default CalibrateOptions.
// Reads no weights. Errors: those of open_for_plan() and window_plan().
Result<uint64_t> calibration_bytes(const std::string& source, const FamilyOptions& family);

// Error calibrate.no_space: the file system of `folder` has less than `bytes` of free space.
Status check_room(const std::string& folder, uint64_t bytes);

}  // namespace moec
