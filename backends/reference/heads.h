// The vectors of attention's heads, whatever pages (ir/graph/ops.h Attention) a cache is in.
#pragma once

#include <span>
#include <vector>

#include "backends/reference/reference.h"

namespace moec {

// [heads, rows, head_dim]
struct Heads {
  int64_t rows = 0, head_dim = 0;
  std::vector<float> data;

  std::span<float> at(int64_t head, int64_t row) {
    return std::span(data).subspan(static_cast<size_t>((head * rows + row) * head_dim),
                                   static_cast<size_t>(head_dim));
  }
};

// The heads of a token tensor of heads·head_dim channels.
Heads split_heads(const Tensor& tokens, int64_t heads, int64_t head_dim);

// A cache [P, heads, rows/P, head_dim], and back into one of type `type`.
Heads from_pages(const Tensor& cache);
Tensor in_pages(Heads& heads, const Type& type);

// What is added to the scores of query t for each key, of a mask [P, 1, T, keys/P].
std::vector<float> mask_of_query(const Tensor& mask, int64_t t);

}  // namespace moec
