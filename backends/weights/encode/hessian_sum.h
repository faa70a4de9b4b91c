// Accumulates the Hessian of a linear map from rows of its inputs.
#pragma once

#include <span>
#include <vector>

#include "backends/weights/encode/hessian.h"

namespace moec {

// Returns the number of inputs per block with which the sums of a map fit in `bytes`: all inputs if
// possible, otherwise blocks of about equal size with at least 64 inputs.
int64_t summed_together(int64_t inputs, uint64_t bytes);

// Accumulates diagonal blocks only: inputs of different blocks are not multiplied.
class HessianSum {
 public:
  explicit HessianSum(int64_t inputs) : HessianSum(inputs, inputs) {}
  // Blocks begin at multiples of `together`.
  HessianSum(int64_t inputs, int64_t together);

  // Adds rows [tokens, inputs]. Rows are summed in batches of a fixed size, so the result depends
  // only on their order, not on how they are divided among calls.
  void add(std::span<const float> rows);
  // Completes the sum. Returns one Hessian per block.
  std::vector<Hessian> finish();

 private:
  void add_block(std::span<const float> rows);

  int64_t inputs_;
  std::vector<Hessian> blocks_;  // lower triangles; sums are empty before the first rows
  std::vector<float> pending_;   // rows that are not yet added
};

}  // namespace moec
