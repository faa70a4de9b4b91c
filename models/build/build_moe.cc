#include <fmt/format.h>

#include <optional>

#include "ir/graph/port_names.h"
#include "ir/plan/expert_runs.h"
#include "models/build/affine_residual.h"
#include "models/build/expert_views.h"
#include "models/build/router_mlp.h"
#include "models/build/shard_scope.h"
#include "models/build/width_slices.h"

namespace moec {
namespace {

WeightView choice_bias(const ShardScope& scope) {
  const int64_t slots = scope.model().moe.slots();
  if (!scope.model().names.has("router_choice_bias_row"))
    return scope.stored("router_choice_bias", {slots});
  return then(scope.stored("router_choice_bias_row", {1, slots}), ReshapeStep{{slots}});
}

// Below f32 the bias is taken less its median, which changes no choice, and in two halves: an
// offset that all experts share would cost the digits that tell them apart.
void append_choice_bias(ShardScope& scope, std::vector<ValueId>& operands) {
  const ValueId logits = operands[0];
  const DType dtype = scope.b.type(logits).dtype;
  WeightView bias = choice_bias(scope);
  if (dtype != DType::f32) bias = then(std::move(bias), CenterStep{});
  operands.push_back(scope.weight_like(logits, bias, "router.choice_bias"));
  if (dtype == DType::f32) return;
  WeightView low = then(std::move(bias), RemainderStep{dtype});
  operands.push_back(scope.weight_like(logits, std::move(low), "router.choice_bias_low"));
}

ValueId router_logits(ShardScope& scope, ValueId x, ValueId earlier) {
  const MoeConfig& moe = scope.model().moe;
  if (moe.router_hidden > 0) return router_mlp(scope, x, earlier);
  return scope.linear(x, {"router", moe.slots(), moe.router_bias}, "router");
}

// The routing weights of the experts. A token may choose null slots, which compute nothing; they
// take part in the choice and in the renormalisation, and their weights are dropped after it.
ValueId router(ShardScope& scope, ValueId x, ValueId earlier) {
  const MoeConfig& moe = scope.model().moe;
  std::vector<ValueId> operands = {router_logits(scope, x, earlier)};
  if (moe.choice_bias) append_choice_bias(scope, operands);
  const bool cast = scope.b.type(x).dtype != scope.options().dtype;
  ValueId weights = scope.b.emit(moe.routing, std::move(operands),
                                 moe.null_slots > 0 || cast ? "slot_weights" : kRoutingWeights);
  if (moe.null_slots > 0)
    weights = scope.b.slice(weights, kChannelAxis, 0, moe.experts,
                            cast ? "expert_weights" : kRoutingWeights);
  return scope.to_dtype(weights, scope.options().dtype, kRoutingWeights);
}

// The shard's slice of the matrices of an MLP: gate and up [width, d], down [d, width].
ExpertViews sliced_matrices(const ShardScope& scope, ExpertViews all, int64_t width) {
  if (scope.decl.slices == 1) return all;
  const auto [begin, size] = slice_of(scope.decl, width);
  return {then(std::move(all.gate), SliceStep{0, begin, size}),
          then(std::move(all.up), SliceStep{0, begin, size}),
          then(std::move(all.down), SliceStep{1, begin, size})};
}

// The same of its biases: gate and up [width], down [d]. The bias of down is added once, by the
// first slice.
ExpertViews sliced_biases(const ShardScope& scope, ExpertViews all, int64_t width) {
  if (scope.decl.slices == 1) return all;
  const auto [begin, size] = slice_of(scope.decl, width);
  if (scope.decl.slice > 0) all.down = splat_view(0, scope.type_of({scope.model().hidden}));
  return {then(std::move(all.gate), SliceStep{0, begin, size}),
          then(std::move(all.up), SliceStep{0, begin, size}), std::move(all.down)};
}

ExpertViews own_expert_matrices(const ShardScope& scope, int64_t expert) {
  return sliced_matrices(scope, expert_matrices(scope, expert), scope.model().moe.expert_ff);
}
ExpertViews own_expert_biases(const ShardScope& scope, int64_t expert) {
  return sliced_biases(scope, expert_biases(scope, expert), scope.model().moe.expert_ff);
}

// Appends gate, up and down as weights named gate.NAME, up.NAME and down.NAME.
void append_parts(ShardScope& scope, ExpertViews of, const std::string& name,
                  std::vector<ValueId>& operands) {
  operands.push_back(scope.weight(std::move(of.gate), "gate." + name));
  operands.push_back(scope.weight(std::move(of.up), "up." + name));
  operands.push_back(scope.weight(std::move(of.down), "down." + name));
}

// Appends the weights that `views` gives for each of these experts.
void append_experts(ShardScope& scope, const ExpertRun& run,
                    ExpertViews (*views)(const ShardScope&, int64_t), const std::string& name,
                    std::vector<ValueId>& operands) {
  for (int64_t e = run.first; e < run.first + run.count; ++e) {
    Builder::NameScope names(scope.b, fmt::format("experts.{}", e));
    append_parts(scope, views(scope, e), name, operands);
  }
}

// The weighted sum of a run of experts.
ValueId experts_of_run(ShardScope& scope, ValueId x, ValueId routing, const ExpertRun& run,
                       std::string name) {
  std::vector<ValueId> operands = {x, routing};
  append_experts(scope, run, own_expert_matrices, "weight", operands);
  if (scope.model().moe.expert_biases)
    append_experts(scope, run, own_expert_biases, "bias", operands);
  SoftMoe op{run.count, run.first, scope.model().mlp.gating, scope.model().moe.weight_on};
  return scope.b.emit(op, std::move(operands), std::move(name));
}

// The weighted sum of the shard's own experts.
ValueId experts(ShardScope& scope, ValueId x, ValueId routing) {
  const std::vector<ExpertRun> runs = expert_runs(scope.decl);
  if (runs.size() == 1) return experts_of_run(scope, x, routing, runs.front(), "experts");
  std::optional<ValueId> sum;
  for (const ExpertRun& run : runs) {
    const std::string name = fmt::format("experts_from_{}", run.first);
    const ValueId part = experts_of_run(scope, x, routing, run, name);
    sum = sum ? scope.b.add(*sum, part, name + "_sum") : part;
  }
  return *sum;
}

// The roles of a gated MLP's matrices. The role of a bias is that of its matrix with _bias
// appended.
struct MlpRoles {
  std::string gate, up, down;
  std::string gate_up;  // of the one that has both, where the model has that
};

// gate and up [width, d], down [d, width]. A checkpoint stores gate and up as two matrices or as
// the halves of one.
ExpertViews mlp_matrices(const ShardScope& scope, const MlpRoles& roles, int64_t width) {
  const int64_t d = scope.model().hidden;
  WeightView down = scope.stored(roles.down, {d, width});
  if (!scope.model().names.has(roles.gate_up))
    return {scope.stored(roles.gate, {width, d}), scope.stored(roles.up, {width, d}),
            std::move(down)};
  WeightView both = scope.stored(roles.gate_up, {2 * width, d});
  return {then(both, SliceStep{0, 0, width}), then(both, SliceStep{0, width, width}),
          std::move(down)};
}

// gate and up [width], down [d]
ExpertViews mlp_biases(const ShardScope& scope, const MlpRoles& roles, int64_t width) {
  return {scope.stored(roles.gate + "_bias", {width}), scope.stored(roles.up + "_bias", {width}),
          scope.stored(roles.down + "_bias", {scope.model().hidden})};
}

// A gated MLP; `biases` and `sigmoid_gate` where the model has them.
struct MlpViews {
  ExpertViews matrices;
  std::optional<ExpertViews> biases;
  std::optional<WeightView> sigmoid_gate;
};

// The shard's slice of a gated MLP of this width. The gate multiplies the outputs of all slices.
ValueId gated_mlp(ShardScope& scope, ValueId x, MlpViews views, int64_t width,
                  const std::string& name) {
  std::vector<ValueId> operands = {x};
  {
    Builder::NameScope names(scope.b, name);
    append_parts(scope, sliced_matrices(scope, std::move(views.matrices), width), "weight",
                 operands);
    if (views.biases)
      append_parts(scope, sliced_biases(scope, std::move(*views.biases), width), "bias", operands);
    if (views.sigmoid_gate)
      operands.push_back(scope.weight(std::move(*views.sigmoid_gate), "sigmoid_gate.weight"));
  }
  return scope.b.emit(GatedMlp{scope.model().mlp.gating}, std::move(operands), name);
}

ValueId shared_expert(ShardScope& scope, ValueId x) {
  const MlpRoles roles = {"shared_gate_proj", "shared_up", "shared_down", "shared_gate_up"};
  const ModelConfig& model = scope.model();
  MlpViews views{mlp_matrices(scope, roles, model.moe.shared_ff), std::nullopt, std::nullopt};
  if (model.mlp.bias) views.biases = mlp_biases(scope, roles, model.moe.shared_ff);
  if (model.moe.shared_gated)
    views.sigmoid_gate = scope.stored("shared_sigmoid_gate", {1, model.hidden});
  return gated_mlp(scope, x, std::move(views), model.moe.shared_ff, "shared_expert");
}

// The sum of the shard's experts. The shared expert is added once a layer: by shards of its own, or
// else by the shard that has expert 0.
ValueId experts_part(ShardScope& scope, ValueId x, ValueId routing) {
  ValueId sum = experts(scope, x, routing);
  const bool none = scope.model().moe.shared_ff == 0 || scope.options().slices.shared > 0;
  if (none || scope.decl.first_expert != 0) return sum;
  return scope.b.add(sum, shared_expert(scope, x), "experts_and_shared");
}

ValueId hidden_input(ShardScope& scope) {
  return scope.b.input(kHiddenPort, scope.token_type_of(scope.model().hidden));
}

// With host routing the router and each group of experts compute this norm again: it costs less
// than an edge of its own between the shards.
ValueId ffn_norm(ShardScope& scope, ValueId hidden) { return scope.norm(hidden, "ffn_norm"); }

// The norm that a router reads, in f32 where the router computes in f32.
ValueId router_norm(ShardScope& scope, ValueId hidden) {
  const DType dtype = scope.options().wide_router ? DType::f32 : scope.options().dtype;
  return ffn_norm(scope, scope.to_dtype(hidden, dtype, "hidden.wide"));
}

// The norm that experts read: the router's, rounded to the shard's element type.
ValueId expert_input(ShardScope& scope, ValueId norm) {
  return scope.to_dtype(norm, scope.options().dtype, "expert_input");
}

void add_residual(ShardScope& scope, ValueId residual, ValueId part) {
  scope.b.output(kMoeOutPort, scope.add_residual(residual, part, "ffn", kMoeOutPort));
}

ValueId partial_sum_input(ShardScope& scope) {
  return scope.b.input(kPartialSumPort, scope.token_type_of(scope.model().hidden));
}

// Adds what the shard computes of its layer's feed-forward sum. The first part of a layer takes the
// residual stream as the sum so far.
void add_part(ShardScope& scope, ValueId sum, ValueId part) {
  if (scope.model().stream.residual == ResidualKind::plain ||
      is_first_part(scope.decl, scope.options()))
    return add_residual(scope, sum, part);
  scope.b.output(kMoeOutPort, add_affine_part(scope, sum, part, "ffn", kMoeOutPort));
}

}  // namespace

void build_moe(ShardScope& scope) {
  ValueId hidden = hidden_input(scope);
  ValueId earlier = earlier_router_state(scope);
  ValueId x = router_norm(scope, hidden);
  ValueId routing = router(scope, x, earlier);
  add_residual(scope, hidden, experts_part(scope, expert_input(scope, x), routing));
}

void build_mlp(ShardScope& scope) {
  std::optional<ValueId> sum;
  if (scope.decl.slices > 1) sum = partial_sum_input(scope);
  ValueId hidden = hidden_input(scope);
  ValueId x = ffn_norm(scope, hidden);
  const MlpRoles roles = {"gate", "up", "down", "gate_up"};
  const int64_t width = scope.model().mlp.ff;
  MlpViews views{mlp_matrices(scope, roles, width), std::nullopt, std::nullopt};
  if (scope.model().mlp.bias) views.biases = mlp_biases(scope, roles, width);
  add_part(scope, sum.value_or(hidden), gated_mlp(scope, x, std::move(views), width, "mlp"));
}

void build_shared(ShardScope& scope) {
  ValueId sum = partial_sum_input(scope);
  ValueId x = router_norm(scope, hidden_input(scope));
  add_part(scope, sum, shared_expert(scope, expert_input(scope, x)));
}

void build_router(ShardScope& scope) {
  ValueId hidden = hidden_input(scope);
  ValueId earlier = earlier_router_state(scope);
  ValueId x = router_norm(scope, hidden);
  scope.b.output(kRoutingWeights, router(scope, x, earlier));
}

void build_experts(ShardScope& scope) {
  ValueId sum = partial_sum_input(scope);
  ValueId hidden = hidden_input(scope);
  ValueId routing = scope.b.input(kRoutingWeights, scope.token_type_of(scope.model().moe.experts));
  ValueId x = expert_input(scope, router_norm(scope, hidden));
  add_part(scope, sum, experts_part(scope, x, routing));
}

}  // namespace moec
