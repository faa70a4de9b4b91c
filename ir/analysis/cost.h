// The cost of a shard, computed from its ops and types alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/graph/shard.h"

namespace moec {

// Counts ops per mnemonic, weights and constants included.
std::map<std::string, int64_t> op_histogram(const Shard& shard);

// The cost of one run of a shard. `active` is the cost in a sparse runtime, which computes only the
// chosen experts. `active` and `dense` differ only in form `model`, where soft_moe is still one op.
struct ShardCost {
  int64_t macs_dense = 0, macs_active = 0;    // multiply-adds of contractions
  int64_t bytes_dense = 0, bytes_active = 0;  // of weights read
};

// Counts contractions: conv, matmul, linear, and the projections and attention products of
// composites. Elementwise work is not counted. In a soft_moe, `top_k` of `all_experts` experts are
// active.
ShardCost count_cost(const Shard& shard, int64_t top_k = 1, int64_t all_experts = 1);

// Multiply-adds of one contraction; 0 for other ops.
int64_t count_macs(const Shard& shard, const Op& op);

// Returns the code form in which a format writes a weight. Null: two's complement for every weight.
using CodeFormOf = CodeForm (*)(const Encoding& encoding, const Type& type);

// Bytes of all weights as the shard stores them: encoded, or in their types after casts. `form`
// affects the result, because some code forms pad zero points.
int64_t weight_bytes(const Shard& shard, CodeFormOf form = nullptr);
// Bytes of one value; 0 if it is not a weight.
int64_t weight_bytes(const Shard& shard, ValueId value, CodeFormOf form = nullptr);
// Bytes of one weight of this encoding and type.
int64_t encoded_bytes(const Encoding& encoding, const Type& type, CodeForm form);

// Bytes of the weights of a shard that was read from emitted files. The view of an encoded weight
// then decodes stored tensors, and the bytes of these tensors are counted.
int64_t filed_weight_bytes(const Shard& shard);
int64_t filed_weight_bytes(const Shard& shard, ValueId value);

// Peak bytes of inputs, outputs and intermediate values when ops run in order and each value is
// freed after its last use. Weights, their transposes and constants are not counted.
int64_t peak_activation_bytes(const Shard& shard);

}  // namespace moec
