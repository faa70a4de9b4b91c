// The core of attention, computed from the caches in place. A run of single ops would first join
// each cache with the new rows, which copies all keys and values that the tokens see.
#pragma once

#include <optional>

#include "backends/reference/gates.h"
#include "backends/reference/products.h"

namespace moec {

// softmax(queries · keysᵀ + mask) · values for each KV head, over the selected keys: those of the
// caches, then the new ones.
//
//   queries [1, K, R, D]         the rows of the query heads that share a KV head, and tokens of
//                                each: row r of KV head k belongs to token (k R + r) mod T
//   keys    [1, K, C, D], [1, K, T, D]
//   values  [1, K, C, V], [1, K, T, V]
//   mask    [1, 1, T, C + T]
//   result  [1, K, R, V]
struct CoreTensors {
  const Tensor *queries = nullptr, *old_keys = nullptr, *new_keys = nullptr;
  const Tensor *old_values = nullptr, *new_values = nullptr, *mask = nullptr;
};

// Returns the core if it is all of the gate's part.
std::optional<AttentionCore> find_attention_core(const Shard& shard, const Gates& gates,
                                                 uint32_t gate);

Tensor eval_core(const CoreTensors& core, const OpenGate& open, const Products& products,
                 const Type& type);

}  // namespace moec
