// Multithreaded matrix products of the engine `cpu`, computed from weights in their stored form.
#pragma once

#include "backends/cpu/thread_team.h"
#include "backends/reference/products.h"

namespace moec {

// Each thread decodes the rows of stored weights that it multiplies, tile by tile. The outputs are
// divided among threads, but the terms of a sum are not, so results do not depend on the number of
// threads.
class CpuProducts : public Products {
 public:
  explicit CpuProducts(int threads) : team_(threads) {}

  void multiply(const Factor& a, const Factor& b, bool b_is_turned, const ProductSizes& sizes,
                float* out) const override;

 private:
  mutable ThreadTeam team_;
};

}  // namespace moec
