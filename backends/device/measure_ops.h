// Measures the time of the executor's ops other than products with weights, on small graphs.
#pragma once

#include "backends/device/median_seconds.h"
#include "backends/reference/products.h"
#include "ir/target/device_profile.h"

namespace moec {

// Sets the times of elements, of ops and of runs. `repetition` applies to each of the graphs.
// `products` must be those of the engine, because the executor works differently without them.
// Errors: those of Executor; doctor.interrupted.
Status measure_ops(const Products& products, const Repetition& repetition, DeviceProfile& profile);

}  // namespace moec
