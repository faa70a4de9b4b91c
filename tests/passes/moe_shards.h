// Seeded shards with experts, for tests of routing and expert forms.
#pragma once

#include "tests/passes/pass_testing.h"

namespace moec {

inline const Router kTopTwo{.score = Score::softmax, .top_k = 2, .renorm = Renorm::sum};

struct MoeSizes {
  int64_t experts = 8, width = 12, inner = 10, tokens = 5;
  double scale = 0.5;  // weights lie in [-scale, scale)
  bool biases = false;
  Gating gating;
  RoutedWeight weight_on = RoutedWeight::output;
};

// Appends the weights (and biases) of `count` experts in the operand order of soft_moe.
inline void append_expert_weights(Builder& b, const MoeSizes& sizes, DType dtype, int64_t first,
                                  int64_t count, std::vector<ValueId>& operands) {
  for (int64_t e = first; e < first + count; ++e) {
    Builder::NameScope scope(b, "experts." + std::to_string(e));
    const auto seed = static_cast<uint64_t>(100 * e);
    const Dims in{sizes.inner, sizes.width}, out{sizes.width, sizes.inner};
    if (sizes.gating.has_gate())
      operands.push_back(seeded_weight(b, seed, dtype, in, sizes.scale, "gate.weight"));
    operands.push_back(seeded_weight(b, seed + 1, dtype, in, sizes.scale, "up.weight"));
    operands.push_back(seeded_weight(b, seed + 2, dtype, out, sizes.scale, "down.weight"));
  }
  if (!sizes.biases) return;
  for (int64_t e = first; e < first + count; ++e) {
    Builder::NameScope scope(b, "experts." + std::to_string(e));
    const auto seed = static_cast<uint64_t>(100 * e);
    if (sizes.gating.has_gate())
      operands.push_back(seeded_weight(b, seed + 3, dtype, {sizes.inner}, 1, "gate.bias"));
    operands.push_back(seeded_weight(b, seed + 4, dtype, {sizes.inner}, 1, "up.bias"));
    operands.push_back(seeded_weight(b, seed + 5, dtype, {sizes.width}, 1, "down.bias"));
  }
}

// The MoE part of a layer: x + experts(x), with a router that is a linear map of x.
inline Shard moe_shard(const MoeSizes& sizes, Layout layout, const Router& router,
                       DType dtype = DType::f32) {
  Builder b("L00.moe", Form::model);
  ValueId x = b.input("hidden", token_type(dtype, layout, sizes.width, sizes.tokens));
  ValueId gate = seeded_weight(b, 7, dtype, {sizes.experts, sizes.width}, 1, "router.weight");
  ValueId routing = b.emit(router, {b.linear(x, gate, "logits")}, "routing");
  std::vector<ValueId> operands = {x, routing};
  append_expert_weights(b, sizes, dtype, 0, sizes.experts, operands);
  const SoftMoe op{.experts = sizes.experts, .gating = sizes.gating, .weight_on = sizes.weight_on};
  ValueId moe = b.emit(op, operands, "moe");
  b.output("moe_out", b.add(x, moe, "residual"));
  return b.finish();
}

// Experts [first, first + count); the routing weights of all experts are an input.
inline Shard group_shard(const MoeSizes& sizes, Layout layout, int64_t first, int64_t count,
                         DType dtype = DType::f32) {
  Builder b("L00.moe.g1", Form::model);
  ValueId x = b.input("hidden", token_type(dtype, layout, sizes.width, sizes.tokens));
  ValueId routing = b.input("routing", token_type(dtype, layout, sizes.experts, sizes.tokens));
  std::vector<ValueId> operands = {x, routing};
  append_expert_weights(b, sizes, dtype, first, count, operands);
  const SoftMoe moe{.experts = count,
                    .first_expert = first,
                    .gating = sizes.gating,
                    .weight_on = sizes.weight_on};
  b.output("moe_out", b.emit(moe, operands, "moe"));
  return b.finish();
}

}  // namespace moec
