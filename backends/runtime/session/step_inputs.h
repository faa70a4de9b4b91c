// Converts between the rows of a session and the tensors of a shard's ports.
#pragma once

#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/reference/reference.h"
#include "backends/runtime/session/chunk.h"

namespace moec {

// Returns a tensor for the port with `rows` in its layout; padding after the last row is zero.
Tensor pack_rows(const manifest::Port& port, const Rows& rows);
// Returns the rows of the first `count` tokens of a tensor.
Rows unpack_rows(const Tensor& tensor, int64_t count);

// Positions of the new tokens of a step and of the keys to which they can attend.
struct MaskScope {
  CacheForm cache = CacheForm::append;
  int64_t context = 0;   // rows per head of the cache
  int64_t position = 0;  // of the first new token
  int64_t count = 0;     // new tokens without padding
};

// Return the inputs attn_mask and kv_write_mask, as manifest.fbs defines them.
Tensor attention_mask(const manifest::Port& port, const MaskScope& scope,
                      const InputBinding& binding, double masked_value);
Tensor write_mask(const manifest::Port& port, int64_t position, int64_t count);
// Returns 1 for each of the first `count` tokens and 0 for padding.
Tensor token_mask(const manifest::Port& port, int64_t count);

// cache_tensor() converts a cache [kv_heads, S, dims] to the f32 tensor of a port, with or without
// pages. take_cache_rows() extracts rows [begin, begin + count) of each head as [kv_heads, count,
// dims].
Tensor cache_tensor(const manifest::Port& port, const CacheValues& cache);
std::vector<float> take_cache_rows(const Tensor& tensor, int64_t begin, int64_t count);
// Store all values of a cache, or new rows [kv_heads, count, dims] at `position`; `shape` contains
// the cache. Halves are rounded to nearest, and values of 65,520 and more become infinite.
void store_cache(CacheValues& cache, std::vector<float> values);
void store_cache_rows(CacheValues& cache, const LayerCache& shape, const std::vector<float>& rows,
                      int64_t position);

// Appends rows to a history and removes the same number of its oldest rows.
void push_rows(Rows& history, const Rows& rows);

}  // namespace moec
