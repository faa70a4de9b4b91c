// Converts tensors of tokens, in either layout, to rows of channels, which the composites use.
#pragma once

#include <span>
#include <vector>

#include "backends/reference/reference.h"

namespace moec {

// [T, C], row-major.
struct TokenRows {
  int64_t tokens = 0, channels = 0;
  std::vector<float> data;

  std::span<float> row(int64_t token) {
    return std::span(data).subspan(static_cast<size_t>(token * channels),
                                   static_cast<size_t>(channels));
  }
  std::span<const float> row(int64_t token) const {
    return std::span(data).subspan(static_cast<size_t>(token * channels),
                                   static_cast<size_t>(channels));
  }
};

TokenRows zero_rows(int64_t tokens, int64_t channels);
TokenRows rows_of(const Tensor& tensor);
// Returns a tensor of type `type`, in its layout.
Tensor tensor_of(const TokenRows& rows, const Type& type);

// Returns W · x for each row x; w is [out, in]. Without `products`, the sums are in Eigen's order.
TokenRows project(const Products* products, const Tensor& w, const TokenRows& x);

}  // namespace moec
