#include "backends/reference/heads.h"

#include <algorithm>

#include "backends/reference/tokens.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// Calls visit(head, row) for each vector of a cache of these sizes, in memory order.
// Page p of a cache holds rows [p * rows, (p + 1) * rows) of every head.
template <class Visit>
void each_vector(const Dims& cache, Visit visit) {
  const int64_t pages = cache[0], heads = cache[1], rows = cache[2];
  for (int64_t page = 0; page < pages; ++page)
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t row = 0; row < rows; ++row) visit(head, page * rows + row);
}

}  // namespace

Heads split_heads(const Tensor& tokens, int64_t heads, int64_t head_dim) {
  const TokenRows rows = rows_of(tokens);
  Heads split{rows.tokens, head_dim, std::vector<float>(rows.data.size())};
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t t = 0; t < rows.tokens; ++t)
      for (int64_t i = 0; i < head_dim; ++i)
        at(split.at(h, t), i) = at(rows.row(t), h * head_dim + i);
  return split;
}

Heads from_pages(const Tensor& cache) {
  const Dims& dims = cache.type.dims;
  Heads heads{dims[0] * dims[2], dims[3], std::vector<float>(cache.data.size())};
  auto from = cache.data.begin();
  each_vector(dims, [&](int64_t head, int64_t row) {
    std::copy_n(from, heads.head_dim, heads.at(head, row).begin());
    from += heads.head_dim;
  });
  return heads;
}

Tensor in_pages(Heads& heads, const Type& type) {
  Tensor cache{type, {}};
  cache.data.reserve(heads.data.size());
  each_vector(type.dims, [&](int64_t head, int64_t row) {
    const std::span<const float> vector = heads.at(head, row);
    cache.data.insert(cache.data.end(), vector.begin(), vector.end());
  });
  return cache;
}

// The mask has the pages of the cache, so the row of a query is spread over the pages.
std::vector<float> mask_of_query(const Tensor& mask, int64_t t) {
  const int64_t pages = mask.type.dims[0], tokens = mask.type.dims[2], rows = mask.type.dims[3];
  std::vector<float> row;
  for (int64_t page = 0; page < pages; ++page) {
    auto begin = mask.data.begin() + (page * tokens + t) * rows;
    row.insert(row.end(), begin, begin + rows);
  }
  return row;
}

}  // namespace moec
