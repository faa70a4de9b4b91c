// Measures the time of the executor's ops other than products with weights, on small graphs.
#pragma once

#include "backends/reference/products.h"
#include "ir/target/device_profile.h"

namespace moec {

// Sets the times of elements, of ops and of runs. Each of the graphs runs for `budget` seconds.
// `products` must be those of the engine, because the executor works differently without them.
// Errors: those of Executor.
Status measure_ops(const Products& products, double budget, DeviceProfile& profile);

}  // namespace moec
