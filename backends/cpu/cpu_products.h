// Multithreaded matrix products of the engine `cpu`, computed from weights in their stored form.
#pragma once

#include <span>

#include "backends/cpu/thread_team.h"
#include "backends/reference/products.h"

namespace moec {

// Distances of tokens, and of the elements of a token. One of them is 1.
struct TokenStrides {
  int64_t token = 1, element = 1;
};
// Activations of `count` tokens.
struct TokenColumns {
  const float* values = nullptr;
  int64_t count = 0, inner = 0;
  TokenStrides strides;
};
// Destination of `count` outputs of each token.
struct Outputs {
  float* values = nullptr;
  int64_t count = 0;
  TokenStrides strides;
};

// Each thread decodes the rows of stored weights that it multiplies, tile by tile; products of
// codes with a single token, or with int8 activations, decode them in registers. The outputs are
// divided among threads, but the terms of a sum are not, so results do not depend on the number of
// threads.
//
// With ActivationFormat::int8, products with rows of codes round the activations of each token.
class CpuProducts : public Products {
 public:
  CpuProducts(int threads, ActivationFormat format) : team_(threads), format_(format) {}

  void multiply(const Factor& a, const Factor& b, bool b_is_turned, const ProductSizes& sizes,
                float* out) const override;
  void multiply_tokens(std::span<const TokenProduct> products) const override;
  void softmax(const float* x, int64_t count, float* to) const override;
  void sigmoid(const float* x, int64_t count, float* to) const override;
  void divide(int64_t count,
              const std::function<void(int64_t begin, int64_t end)>& work) const override {
    team_.divide(count, 1, work);
  }

 private:
  // Multiplies w [outputs, inner] by each of several tokens. Returns false if w is not rows of
  // codes with a kernel for int8 activations.
  bool dot_codes(const Factor& w, const TokenColumns& x, const Outputs& out) const;
  void dot_tokens(const Factor& w, const CodedTokens& tokens, const Outputs& out) const;

  mutable ThreadTeam team_;
  ActivationFormat format_;
};

}  // namespace moec
