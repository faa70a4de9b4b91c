#include "models/shards/expert_views.h"

namespace moec {

namespace {

// Positions: of a half in order gate_first, or within a pair in the interleaved order.
enum Part { kGate, kUp };

// One expert of a tensor of all experts of a layer, [experts, each…], as [1, each…].
WeightView expert_of(const ShardScope& scope, const std::string& role, Dims each, int64_t expert) {
  each.insert(each.begin(), scope.model().moe.experts);
  return then(scope.stored(role, std::move(each)), SliceStep{0, expert, 1});
}

// Slices gate or up out of `both`, which has size 2f along `axis`, and reshapes it to `dims`.
// `split` is the shape of `both` with 2f as [f, 2], for the interleaved order.
WeightView part_of(const ShardScope& scope, WeightView both, Part part, int64_t axis, Dims split,
                   Dims dims) {
  const MoeConfig& moe = scope.model().moe;
  if (moe.gate_up_order == GateUpOrder::gate_first)
    return then(then(std::move(both), SliceStep{axis, part * moe.expert_ff, moe.expert_ff}),
                ReshapeStep{std::move(dims)});
  // In the interleaved order, gate and up alternate along the axis.
  WeightView pairs = then(std::move(both), ReshapeStep{std::move(split)});
  return then(then(std::move(pairs), SliceStep{axis, part, 1}), ReshapeStep{std::move(dims)});
}

// Gate or up of one expert, if gate and up are separate tensors of all experts.
WeightView separate(const ShardScope& scope, Part part, std::string_view suffix, const Dims& dims,
                    int64_t expert) {
  const std::string role = (part == kGate ? "experts_gate" : "experts_up") + std::string(suffix);
  return then(expert_of(scope, role, dims, expert), ReshapeStep{dims});
}

WeightView gate_or_up(const ShardScope& scope, int64_t expert, Part part) {
  const int64_t f = scope.model().moe.expert_ff, d = scope.model().expert_width();
  if (scope.model().names.has("experts_gate")) return separate(scope, part, "", {f, d}, expert);
  if (!scope.model().names.has("experts_gate_up_in_out"))
    return part_of(scope, expert_of(scope, "experts_gate_up", {2 * f, d}, expert), part, 1,
                   {f, 2, d}, {f, d});
  WeightView both = expert_of(scope, "experts_gate_up_in_out", {d, 2 * f}, expert);
  return then(part_of(scope, std::move(both), part, 2, {d, f, 2}, {d, f}), PermuteStep{{1, 0}});
}

WeightView down(const ShardScope& scope, int64_t expert) {
  const int64_t f = scope.model().moe.expert_ff, d = scope.model().expert_width();
  if (!scope.model().names.has("experts_down_in_out"))
    return then(expert_of(scope, "experts_down", {d, f}, expert), ReshapeStep{{d, f}});
  WeightView transposed = expert_of(scope, "experts_down_in_out", {f, d}, expert);
  return then(then(std::move(transposed), ReshapeStep{{f, d}}), PermuteStep{{1, 0}});
}

// True if each tensor contains all experts of a layer instead of one expert.
bool holds_all_experts(const TensorNames& names) {
  return names.has("experts_up") || names.has("experts_gate_up") ||
         names.has("experts_gate_up_in_out");
}

}  // namespace

ExpertViews expert_matrices(const ShardScope& scope, int64_t expert) {
  const TensorNames& names = scope.model().names;
  const int64_t f = scope.model().moe.expert_ff, d = scope.model().expert_width();
  const bool gated = scope.model().mlp.gating.has_gate();
  if (!holds_all_experts(names)) {
    std::optional<WeightView> gate;
    if (gated) gate = scope.stored("expert_gate", {f, d}, expert);
    return {std::move(gate), scope.stored("expert_up", {f, d}, expert),
            scope.stored("expert_down", {d, f}, expert)};
  }
  if (!gated) return {std::nullopt, separate(scope, kUp, "", {f, d}, expert), down(scope, expert)};
  return {gate_or_up(scope, expert, kGate), gate_or_up(scope, expert, kUp), down(scope, expert)};
}

ExpertViews expert_biases(const ShardScope& scope, int64_t expert) {
  const int64_t f = scope.model().moe.expert_ff, d = scope.model().expert_width();
  auto of_part = [&](Part part) {
    if (scope.model().names.has("experts_gate_bias"))
      return separate(scope, part, "_bias", {f}, expert);
    return part_of(scope, expert_of(scope, "experts_gate_up_bias", {2 * f}, expert), part, 1,
                   {f, 2}, {f});
  };
  return {of_part(kGate), of_part(kUp),
          then(expert_of(scope, "experts_down_bias", {d}, expert), ReshapeStep{{d}})};
}

static bool adds_bias(const ShardScope& scope) {
  const ModelConfig& model = scope.model();
  return model.moe.latent > 0 && model.mlp.bias && scope.decl.slice == 0;
}

ValueId to_latent(ShardScope& scope, ValueId x) {
  const ModelConfig& model = scope.model();
  if (model.moe.latent == 0) return x;
  return scope.linear(x, {"latent_in", model.moe.latent, model.mlp.bias}, "latent_in");
}

ValueId from_latent(ShardScope& scope, ValueId sum, LatentBias bias) {
  if (scope.model().moe.latent == 0) return sum;
  const bool here = bias == LatentBias::here && adds_bias(scope);
  return scope.linear(sum, {"latent_out", scope.model().hidden, here}, "latent_out");
}

ValueId with_latent_bias(ShardScope& scope, ValueId shared) {
  if (!adds_bias(scope)) return shared;
  ValueId bias = scope.channel_vector(shared, "latent_out_bias", "latent_out.bias");
  return scope.b.add(shared, bias, "shared_and_latent_bias");
}

}  // namespace moec
