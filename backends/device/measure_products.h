// Measures the matrix products of the engine `cpu`, for each storage form of weights.
#pragma once

#include <vector>

#include "backends/device/check_stop.h"
#include "backends/device/scratch_file.h"
#include "backends/reference/products.h"
#include "ir/target/device_profile.h"

namespace moec {

struct ProductOptions {
  double budget = 0;  // seconds per product
  StopRequest stop;   // asked before each form
};

// Multiplies weights that lie in the mapped file, which the page cache should contain. Successive
// products use different weights, so that large ones come from memory and not from the cache of the
// CPU. Errors: those of WeightReader; doctor.mapping (the system cannot map the file);
// doctor.interrupted.
Result<std::vector<FormTimes>> measure_forms(const Products& products, const ScratchFile& scratch,
                                             const ProductOptions& options);

// Multiplies activations as attention does: queries with keys, and probabilities with values.
ProductTimes measure_activations(const Products& products, double budget);

}  // namespace moec
