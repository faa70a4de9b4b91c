// Tensors of tokens, in either layout, as rows of channels. The composites work on these.
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
// A tensor of `type`, in its layout.
Tensor tensor_of(const TokenRows& rows, const Type& type);

// W · x for each row x.   w [out, in]
TokenRows project(const Tensor& w, const TokenRows& x);

}  // namespace moec
