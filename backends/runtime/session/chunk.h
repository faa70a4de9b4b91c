// The values that a session keeps between the shards of a step and between steps. All are f32 and
// row-major.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/reference/rows.h"

namespace moec {

// What is kept of earlier tokens for one layer. Its sizes are fixed by the manifest; what no token
// has filled yet is zero.
struct LayerCache {
  int64_t kv_heads = 0, rows = 0;
  std::vector<float> k;      // [kv_heads, rows, head_dim]
  std::vector<float> v;      // [kv_heads, rows, value_dim]
  Rows history;              // of a convolution over tokens: the latest ones, the newest last
  std::vector<float> state;  // of a recurrent mixer
};

// The rows that one step added to the cache of a layer.
struct NewRows {
  std::vector<float> k, v;  // [kv_heads, count, head_dim or value_dim]
  Rows history;
};

// Up to T tokens that pass through the schedule together.
struct Chunk {
  int64_t position = 0;               // of the first token in the sequence
  int64_t count = 0;                  // tokens; a shard of a larger width gets padding behind them
  size_t width = 0;                   // index into build.tokens
  std::map<std::string, Rows> edges;  // values between shards that were computed so far
  Rows logits;                        // [count, vocab], filled slice by slice
  std::map<int64_t, NewRows> new_rows;  // by layer
  int64_t layer_of_experts = -1;        // the last one whose chosen experts the store was told
};

}  // namespace moec
