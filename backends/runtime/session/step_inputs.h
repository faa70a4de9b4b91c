// Converts between the rows that a session keeps and the tensors that the ports of a shard take.
#pragma once

#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/reference/reference.h"
#include "backends/runtime/session/chunk.h"

namespace moec {

// A tensor for the port, with `rows` in its layout; padding behind the last row is zero.
Tensor pack_rows(const manifest::Port& port, const Rows& rows);
// The rows of the first `count` tokens of a tensor.
Rows unpack_rows(const Tensor& tensor, int64_t count);

// The positions of the new tokens of a step, and the keys that they may attend to.
struct MaskScope {
  CacheForm cache = CacheForm::append;
  int64_t context = 0;   // rows of the cache
  int64_t position = 0;  // of the first new token
  int64_t count = 0;     // new tokens without padding
};

// The values of attn_mask and kv_write_mask, as manifest.fbs defines them.
Tensor attention_mask(const manifest::Port& port, const MaskScope& scope,
                      const InputBinding& binding, double masked_value);
Tensor write_mask(const manifest::Port& port, int64_t position, int64_t count);
// 1 for each of the first `count` tokens, 0 for padding.
Tensor token_mask(const manifest::Port& port, int64_t count);

// A cache [kv_heads, S, dims] in the shape that a port takes, in pages or whole; and the reverse
// for rows begin … begin + count - 1 of each head, [kv_heads, count, dims].
Tensor cache_tensor(const manifest::Port& port, const std::vector<float>& values);
std::vector<float> take_cache_rows(const Tensor& tensor, int64_t begin, int64_t count);
// Stores new rows [kv_heads, count, dims] at `position` of a cache of keys or values, whose heads
// and rows `shape` tells.
void store_cache_rows(std::vector<float>& cache, const LayerCache& shape,
                      const std::vector<float>& rows, int64_t position);

// Appends rows to a history and drops as many of its oldest rows.
void push_rows(Rows& history, const Rows& rows);

}  // namespace moec
