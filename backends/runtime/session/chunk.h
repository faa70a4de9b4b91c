// Values that a session keeps between the shards of a step and between steps. All are row-major,
// and f32 unless a session stores its keys and values as binary16 (SessionOptions::cache_dtype).
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/reference/rows.h"

namespace moec {

// Keys or values of a layer. One of the vectors is empty.
struct CacheValues {
  std::vector<float> floats;
  std::vector<uint16_t> halves;  // binary16
  int64_t count() const { return std::ssize(floats) + std::ssize(halves); }
  bool operator==(const CacheValues&) const = default;
};

// State of earlier tokens in one layer. The manifest determines the sizes. Rows without a token are
// zero.
struct LayerCache {
  int64_t kv_heads = 0, rows = 0;
  CacheValues k;             // [kv_heads, rows, head_dim]
  CacheValues v;             // [kv_heads, rows, value_dim]
  Rows history;              // most recent inputs of a convolution over tokens, newest last
  std::vector<float> state;  // of a recurrent mixer
};

// Rows that one step added to the cache of a layer.
struct NewRows {
  std::vector<float> k, v;  // [kv_heads, count, head_dim or value_dim]
  Rows history;
};

// Up to T tokens that run through the schedule together.
struct Chunk {
  int64_t position = 0;                 // of the first token in the sequence
  int64_t count = 0;                    // number of tokens; wider shards pad after them
  size_t width = 0;                     // index into build.tokens
  std::map<std::string, Rows> edges;    // values between shards, computed so far
  Rows rope;                            // rows of the RoPE table, by token; empty without a table
  Rows logits;                          // [count, vocab]; empty before the first head shard
  std::map<int64_t, NewRows> new_rows;  // by layer
  std::optional<size_t> done_on_peer;   // latest step that a peer ran
  std::map<int64_t, std::set<std::string>> hosts;  // peers by layer
  int64_t layer_of_experts = -1;  // latest layer passed to ExpertStore::begin_layer()
};

}  // namespace moec
