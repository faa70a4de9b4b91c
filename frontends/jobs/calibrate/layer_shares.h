// Divides the layers of a calibration among processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "frontends/measure/text.h"
#include "ir/base/share.h"
#include "ir/model/plan.h"

namespace moec {

// Indices [begin, end) into layers_of().
struct SharedLayers {
  size_t begin = 0, end = 0;
  bool operator==(const SharedLayers&) const = default;
};

// Times of a layer in one unit.
struct LayerTime {
  double forward = 0;  // running the text through the layer
  double sums = 0;     // summing and writing the moments of its inputs
};

// Estimates the costs of layers_of(plan) for a text with this number of windows, in assumed seconds
// of one thread. `group_bytes` is that of CalibrateOptions. Errors: those of tap_shard().
Result<std::vector<LayerTime>> layer_costs(const Plan& plan, int64_t windows, uint64_t group_bytes);

// Returns the layers of a share: consecutive ones. Every layer is in exactly one of the N shares. A
// share also runs the layers before its own, so the first shares have the most layers: the division
// minimizes the time of the slowest share. Shares can be empty.
SharedLayers layers_of_share(const JobShare& share, std::span<const LayerTime> costs);

}  // namespace moec
