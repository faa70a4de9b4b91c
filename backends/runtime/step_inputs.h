// Packing and unpacking between token rows and the ports of a shard.
#pragma once

#include "backends/manifest/manifest.h"
#include "backends/reference/reference.h"
#include "backends/runtime/session.h"

namespace moec {

// `rows` laid out as the port's layout says; places beyond the rows are zero.
Tensor pack_rows(const manifest::Port& port, const Rows& rows);
// The first `count` tokens of a token tensor.
Rows unpack_rows(const Tensor& tensor, int64_t count);

// Where the new tokens of a step stand, and what keys there are besides.
struct MaskScope {
  CacheForm cache = CacheForm::append;
  int64_t context = 0;              // rows of the cache
  int64_t position = 0, count = 0;  // of the first new token, and how many are real
};

// attn_mask and kv_write_mask, as manifest.fbs defines them.
Tensor attention_mask(const manifest::Port& port, const MaskScope& scope,
                      const InputBinding& binding, double masked_value);
Tensor write_mask(const manifest::Port& port, int64_t position, int64_t count);

// A cache [kv_heads, S, dims] as a port takes it, in pages or whole, and `count` rows of each
// head, [kv_heads, count, dims], of a port's cache or new rows.
Tensor cache_tensor(const manifest::Port& port, const std::vector<float>& values);
std::vector<float> take_cache_rows(const Tensor& tensor, int64_t begin, int64_t count);
// Puts new rows [kv_heads, count, dims] at `position` into the keys or the values of `shape`.
void store_cache_rows(std::vector<float>& cache, const LayerCache& shape,
                      const std::vector<float>& rows, int64_t position);

// The rows behind those of a history, whose oldest make room for them.
void push_rows(Rows& history, const Rows& rows);

}  // namespace moec
