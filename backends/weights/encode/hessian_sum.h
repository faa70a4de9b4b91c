// Adds up the Hessian of a linear map while rows of its inputs arrive.
#pragma once

#include <span>
#include <vector>

#include "backends/weights/encode/hessian.h"

namespace moec {

// The inputs of a block where the sums of a map take at most so many bytes: all of them where they
// fit together, else about equal parts, of at least 64.
int64_t summed_together(int64_t inputs, uint64_t bytes);

// Inputs of different blocks are not multiplied: the Hessian has its diagonal blocks only.
class HessianSum {
 public:
  explicit HessianSum(int64_t inputs) : HessianSum(inputs, inputs) {}
  // Blocks begin at multiples of `together`.
  HessianSum(int64_t inputs, int64_t together);

  // Rows [tokens, inputs]. The sum depends on the order of all rows, not on how they are divided
  // among calls: they are added a fixed number at a time.
  void add(std::span<const float> rows);
  // Ends the sum. One Hessian for each block.
  std::vector<Hessian> finish();

 private:
  void add_block(std::span<const float> rows);

  int64_t inputs_;
  std::vector<Hessian> blocks_;  // their lower triangles; sums are empty before the first rows
  std::vector<float> pending_;   // rows that are not added yet
};

}  // namespace moec
