// The model inside a .litertlm file: all shards of an export joined in one graph per signature.
//
//   decode        1 token; outputs the caches and `logits`, f32 [1, 1, V]
//   prefill_T     T tokens; outputs the caches
// Both have the inputs
//   tokens        i32 [1, T], token ids
//   input_pos     i32 [T], positions. Only the first one decides at which rows the caches change
//   kv_cache_k_N, kv_cache_v_N   [1, H, S, D] for the N-th layer with a cache, counted from 0. An
//                 output of the same name has the T new rows at position input_pos[0]
// The graphs contain the embedding, the rotary tables and the masks, which follow from input_pos.
// LiteRT-LM calls the signatures, tokens and caches by these names (version 0.18.1).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/formats/litertlm/decoder_tables.h"
#include "backends/formats/tflite/tflite_contents.h"
#include "ir/graph/shard.h"

namespace moec {

// A signature. Attention is compiled for S - T rows in the caches, so that S keys are visible.
struct SignatureGraph {
  int64_t tokens = 0;
  std::map<std::string, const Shard*> shards;  // by name; without heads, no logits are computed
};

struct DecoderModel {
  DecoderFacts facts;
  std::vector<SignatureGraph> graphs;
};

// Fails with litertlm.form if a shard has inputs that the runtime does not provide, or uses a cache
// otherwise than by appending the new rows to it. Each shard must have passed check_tflite().
Status check_decoder(const DecoderModel& model);

// Returns what a file with the model contains. `model` must have passed check_decoder() and must
// outlive the result.
TfliteSource decoder_source(const DecoderModel& model);

}  // namespace moec
