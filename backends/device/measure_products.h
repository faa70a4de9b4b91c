// Measures the matrix products of the engine `cpu`, for each storage form of weights.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/device/median_seconds.h"
#include "backends/device/scratch_file.h"
#include "backends/reference/products.h"
#include "ir/target/device_profile.h"

namespace moec {

// Rows of a weight, and their length.
struct MatrixShape {
  int64_t rows = 0, inner = 0;
  int64_t elements() const { return rows * inner; }
};

// The measured products: each of the shapes with each number of tokens.
struct ProductGrid {
  // Below the size from which the engine divides a product among its threads, and of a usual
  // expert.
  std::vector<MatrixShape> shapes = {{64, 1024}, {1024, 2048}};
  // One token, the most that the engine multiplies as vectors, and two widths of prompts.
  std::vector<int64_t> tokens = {1, 4, 16, 64};
};

// Multiplies weights that lie in the mapped file, which the page cache should contain, and which
// must be at least as large as the largest weight in f32. Successive products use different
// weights, so that large ones come from memory and not from the cache of the CPU. `repetition`
// applies to each product. Errors: those of WeightReader; doctor.mapping (the system cannot map the
// file); doctor.interrupted.
Result<std::vector<FormTimes>> measure_forms(const Products& products, const ScratchFile& scratch,
                                             const ProductGrid& grid, const Repetition& repetition);

// Multiplies activations as attention does: queries with keys, and probabilities with values.
// `repetition` applies to each number of tokens. Error: doctor.interrupted.
Result<ProductTimes> measure_activations(const Products& products,
                                         const std::vector<int64_t>& tokens,
                                         const Repetition& repetition);

}  // namespace moec
