#include "models/tensors/fold_scales.h"

#include <cmath>

namespace moec {
namespace {

std::optional<OpId> weight_op(const Shard& shard, ValueId value) {
  if (!shard.producer_as<Weight>(value)) return std::nullopt;
  return shard.values[value].producer;
}

// Adds the pair only if all its values are weights, because only weights can be scaled.
void add_pair(const Shard& shard, ValueId up, ValueId down, std::optional<ValueId> bias,
              std::vector<UpAndDown>& pairs) {
  const auto up_op = weight_op(shard, up), down_op = weight_op(shard, down);
  const auto bias_op = bias ? weight_op(shard, *bias) : std::nullopt;
  if (up_op && down_op && (!bias || bias_op)) pairs.push_back({*up_op, *down_op, bias_op});
}

void add_experts(const Shard& shard, const SoftMoe& moe, const std::vector<ValueId>& operands,
                 std::vector<UpAndDown>& pairs) {
  if (!moe.gating.is_linear_in_up()) return;
  const bool biased = moe.has_biases(operands.size());
  for (int64_t e = 0; e < moe.experts; ++e) {
    // The weights of an expert are gate, up and down, in this order.
    const size_t gate = moe.weights_at(e);
    add_pair(shard, operands[gate + 1], operands[gate + 2],
             biased ? std::optional(operands[moe.biases_at(e) + 1]) : std::nullopt, pairs);
  }
}

void add_mlp(const Shard& shard, const GatedMlp& mlp, const std::vector<ValueId>& operands,
             std::vector<UpAndDown>& pairs) {
  if (!mlp.gating.is_linear_in_up()) return;
  add_pair(
      shard, operands[2], operands[3],
      mlp.has_biases(operands.size()) ? std::optional(operands[mlp.biases_at() + 1]) : std::nullopt,
      pairs);
}

}  // namespace

std::vector<UpAndDown> up_and_down(const Shard& shard) {
  std::vector<UpAndDown> pairs;
  for (const Op& op : shard.ops) {
    if (const auto* moe = std::get_if<SoftMoe>(&op.data))
      add_experts(shard, *moe, op.operands, pairs);
    else if (const auto* mlp = std::get_if<GatedMlp>(&op.data))
      add_mlp(shard, *mlp, op.operands, pairs);
  }
  return pairs;
}

WeightView scaled(WeightView view, int exponent) {
  // Scales in f32 before the final cast: the result may fit the narrower type only after scaling. A
  // power of two rounds in f32 only if the result is subnormal.
  std::optional<CastStep> last;
  if (!view.steps.empty() && std::holds_alternative<CastStep>(view.steps.back())) {
    last = std::get<CastStep>(view.steps.back());
    view.steps.pop_back();
    view = then(std::move(view), CastStep{DType::f32});
  }
  view = then(std::move(view), ScaleStep{std::ldexp(1.0, exponent)});
  return last ? then(std::move(view), *last) : view;
}

Shard with_folded_scales(Shard shard, const ScaleFolds& folds) {
  if (folds.empty()) return shard;
  for (const UpAndDown& pair : up_and_down(shard)) {
    const auto view_of = [&](OpId op) -> WeightView& {
      return std::get<Weight>(shard.ops[op].data).view;
    };
    const auto found = folds.find(to_string(view_of(pair.up)));
    if (found == folds.end()) continue;
    const int k = found->second;
    view_of(pair.up) = scaled(view_of(pair.up), -k);
    // The bias is added to the output of up, so both need the same factor.
    if (pair.up_bias) view_of(*pair.up_bias) = scaled(view_of(*pair.up_bias), -k);
    view_of(pair.down) = scaled(view_of(pair.down), k);
  }
  return shard;
}

}  // namespace moec
