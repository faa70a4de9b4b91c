// Multithreaded matrix products of the engine `cpu`, computed from weights in their stored form.
#pragma once

#include <span>

#include "backends/cpu/thread_team.h"
#include "backends/reference/products.h"

namespace moec {

// Each thread decodes the rows of stored weights that it multiplies, tile by tile; the product of
// codes with a single token decodes them in registers. The outputs are divided among threads, but
// the terms of a sum are not, so results do not depend on the number of threads.
//
// With ActivationFormat::int8, products with rows of codes round the activations of each token.
class CpuProducts : public Products {
 public:
  CpuProducts(int threads, ActivationFormat format) : team_(threads), format_(format) {}

  void multiply(const Factor& a, const Factor& b, bool b_is_turned, const ProductSizes& sizes,
                float* out) const override;
  void divide(int64_t count,
              const std::function<void(int64_t begin, int64_t end)>& work) const override {
    team_.divide(count, 1, work);
  }

 private:
  // out [outputs] = w [outputs, token] · token. Returns false if the weight is not rows of codes
  // with a dot kernel.
  bool dot_codes(const Factor& w, std::span<const float> token, int64_t outputs, float* out) const;
  // Multiplies by f32 activations.
  void multiply_exactly(const Factor& a, const Factor& b, bool b_is_turned,
                        const ProductSizes& sizes, float* out) const;

  mutable ThreadTeam team_;
  ActivationFormat format_;
};

}  // namespace moec
