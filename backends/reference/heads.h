// Vectors of attention heads, from tensors of tokens and from caches with any number of pages
// (ir/graph/composites.h, Attention).
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

// Returns the heads of a tensor of tokens with heads·head_dim channels.
Heads split_heads(const Tensor& tokens, int64_t heads, int64_t head_dim);

// Convert between a cache [P, heads, rows/P, head_dim] and its heads.
Heads from_pages(const Tensor& cache);
Tensor in_pages(Heads& heads, const Type& type);

// Returns the row of query t of a mask [P, 1, T, keys/P]: the addend to the score of each key.
std::vector<float> mask_of_query(const Tensor& mask, int64_t t);

}  // namespace moec
