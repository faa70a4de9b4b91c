// The cost of a shard, computed from its ops and types alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/graph/shard.h"

namespace moec {

// The number of ops of each mnemonic, weights and constants included.
std::map<std::string, int64_t> op_histogram(const Shard& shard);

// The cost of one run of a shard. `active` is the cost for a sparse runtime, which computes only
// the chosen experts. It differs from `dense` only in form `model`, where soft_moe is still one op.
struct ShardCost {
  int64_t macs_dense = 0, macs_active = 0;    // multiply-adds of contractions
  int64_t bytes_dense = 0, bytes_active = 0;  // of weights read
};

// Contractions: conv, matmul, linear and the composites' projections and attention products;
// elementwise work is not counted. Of a soft_moe, `top_k` of `all_experts` experts are active.
ShardCost count_cost(const Shard& shard, int64_t top_k = 1, int64_t all_experts = 1);

// Multiply-adds of one contraction; 0 for other ops.
int64_t count_macs(const Shard& shard, const Op& op);

// How a format writes the codes of a weight; null: always in two's complement.
using CodeFormOf = CodeForm (*)(const Encoding& encoding, const Type& type);

// Bytes of all weights as the shard stores them: encoded, or in the types that it holds (after
// casts). Zeros take more bytes in some forms of codes than in others.
int64_t weight_bytes(const Shard& shard, CodeFormOf form = nullptr);
// The same of one value; 0 if it is no weight.
int64_t weight_bytes(const Shard& shard, ValueId value, CodeFormOf form = nullptr);
// The same of one weight of this type.
int64_t encoded_bytes(const Encoding& encoding, const Type& type, CodeForm form);

// The same for a shard that was read from emitted files, where the view of an encoded weight
// decodes: such a weight has the bytes of the tensors that its view reads.
int64_t filed_weight_bytes(const Shard& shard);
int64_t filed_weight_bytes(const Shard& shard, ValueId value);

// The most bytes that inputs, outputs and intermediate values (weights, their transposes and
// constants not counted) occupy at once when ops run in order and values are freed after their last
// use.
int64_t peak_activation_bytes(const Shard& shard);

}  // namespace moec
