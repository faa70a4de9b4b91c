// Adds up the Hessian of a linear map while rows of its inputs arrive.
#pragma once

#include <span>

#include "backends/weights/encode/hessian.h"

namespace moec {

class HessianSum {
 public:
  explicit HessianSum(int64_t inputs) : inputs_(inputs) {}

  // Rows [tokens, inputs]. The sum depends on the order of all rows, not on how they are divided
  // among calls: they are added a fixed number at a time.
  void add(std::span<const float> rows);
  // Ends the sum.
  Hessian finish();

 private:
  void add_block(std::span<const float> rows);

  int64_t inputs_, tokens_ = 0;
  std::vector<float> sums_;     // the lower triangle; empty before the first block
  std::vector<float> pending_;  // rows of a block that is not full yet
};

}  // namespace moec
