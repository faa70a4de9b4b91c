#include <fmt/format.h>

#include <optional>

#include "ir/graph/port_names.h"
#include "models/build/affine_residual.h"
#include "models/build/expert_views.h"
#include "models/build/router_mlp.h"
#include "models/build/shard_scope.h"

namespace moec {
namespace {

WeightView choice_bias(const ShardScope& scope) {
  if (!scope.model().names.has("router_choice_bias_row")) return scope.stored("router_choice_bias");
  return then(scope.stored("router_choice_bias_row"), ReshapeStep{{scope.model().moe.slots()}});
}

ValueId router_logits(ShardScope& scope, ValueId x, ValueId earlier) {
  const MoeConfig& moe = scope.model().moe;
  if (moe.router_hidden > 0) return router_mlp(scope, x, earlier);
  return scope.linear(x, "router", moe.router_bias ? "router_bias" : "", "router");
}

// The weights of the experts: those of null slots are left out.
ValueId router(ShardScope& scope, ValueId x, ValueId earlier) {
  const MoeConfig& moe = scope.model().moe;
  std::vector<ValueId> operands = {router_logits(scope, x, earlier)};
  if (moe.choice_bias) operands.push_back(scope.weight(choice_bias(scope), "router.choice_bias"));
  if (moe.null_slots == 0) return scope.b.emit(moe.routing, std::move(operands), kRoutingWeights);
  ValueId of_slots = scope.b.emit(moe.routing, std::move(operands), "slot_weights");
  return scope.b.slice(of_slots, kChannelAxis, 0, moe.experts, kRoutingWeights);
}

// Gate, up and down, named gate.NAME and so on.
void append_parts(ShardScope& scope, ExpertViews of, const std::string& name,
                  std::vector<ValueId>& operands) {
  operands.push_back(scope.weight(std::move(of.gate), "gate." + name));
  operands.push_back(scope.weight(std::move(of.up), "up." + name));
  operands.push_back(scope.weight(std::move(of.down), "down." + name));
}

// Of each of the shard's own experts: what `views` gives, named so.
void append_experts(ShardScope& scope, ExpertViews (*views)(const ShardScope&, int64_t),
                    const std::string& name, std::vector<ValueId>& operands) {
  const ShardDecl& decl = scope.decl;
  for (int64_t e = decl.first_expert; e < decl.first_expert + decl.experts; ++e) {
    Builder::NameScope names(scope.b, fmt::format("experts.{}", e));
    append_parts(scope, views(scope, e), name, operands);
  }
}

// The shard's own experts, weighted and summed.
ValueId experts(ShardScope& scope, ValueId x, ValueId routing) {
  const ShardDecl& decl = scope.decl;
  std::vector<ValueId> operands = {x, routing};
  append_experts(scope, expert_matrices, "weight", operands);
  if (scope.model().moe.expert_biases) append_experts(scope, expert_biases, "bias", operands);
  SoftMoe op{decl.experts, decl.first_expert, scope.model().gating, scope.model().moe.weight_on};
  return scope.b.emit(op, std::move(operands), "experts");
}

// Biases are those of the roles named as the matrices' with _bias behind.
struct MlpRoles {
  std::string gate, up, down;
};

ValueId gated_mlp(ShardScope& scope, ValueId x, ExpertViews matrices, const MlpRoles& roles,
                  std::optional<WeightView> sigmoid_gate, const std::string& name) {
  std::vector<ValueId> operands = {x};
  {
    Builder::NameScope names(scope.b, name);
    append_parts(scope, std::move(matrices), "weight", operands);
    auto bias = [&](const std::string& role) { return scope.stored(role + "_bias"); };
    if (scope.model().mlp_bias)
      append_parts(scope, {bias(roles.gate), bias(roles.up), bias(roles.down)}, "bias", operands);
    if (sigmoid_gate)
      operands.push_back(scope.weight(std::move(*sigmoid_gate), "sigmoid_gate.weight"));
  }
  return scope.b.emit(GatedMlp{scope.model().gating}, std::move(operands), name);
}

// Gate and up are two matrices or the halves of one.
ExpertViews shared_matrices(const ShardScope& scope) {
  const int64_t width = scope.model().moe.shared_ff;
  WeightView down = scope.stored("shared_down");
  if (!scope.model().names.has("shared_gate_up"))
    return {scope.stored("shared_gate_proj"), scope.stored("shared_up"), std::move(down)};
  WeightView both = scope.stored("shared_gate_up");
  return {then(both, SliceStep{0, 0, width}), then(both, SliceStep{0, width, width}),
          std::move(down)};
}

ValueId shared_expert(ShardScope& scope, ValueId x) {
  std::optional<WeightView> gate;
  if (scope.model().moe.shared_gated) gate = scope.stored("shared_sigmoid_gate");
  return gated_mlp(scope, x, shared_matrices(scope),
                   {"shared_gate_proj", "shared_up", "shared_down"}, std::move(gate),
                   "shared_expert");
}

// The experts' sum, and with the first of them the shared expert.
ValueId experts_part(ShardScope& scope, ValueId x, ValueId routing) {
  ValueId sum = experts(scope, x, routing);
  if (scope.model().moe.shared_ff == 0 || scope.decl.first_expert != 0) return sum;
  return scope.b.add(sum, shared_expert(scope, x), "experts_and_shared");
}

ValueId hidden_input(ShardScope& scope) {
  return scope.b.input(kHiddenPort, scope.token_type_of(scope.model().hidden));
}

ValueId ffn_norm(ShardScope& scope, ValueId hidden) { return scope.norm(hidden, "ffn_norm"); }

void add_residual(ShardScope& scope, ValueId residual, ValueId part) {
  scope.b.output(kMoeOutPort, scope.add_residual(residual, part, "ffn", kMoeOutPort));
}

}  // namespace

void build_moe(ShardScope& scope) {
  ValueId hidden = hidden_input(scope);
  ValueId earlier = earlier_router_state(scope);
  ValueId x = ffn_norm(scope, hidden);
  ValueId routing = router(scope, x, earlier);
  add_residual(scope, hidden, experts_part(scope, x, routing));
}

void build_mlp(ShardScope& scope) {
  ValueId hidden = hidden_input(scope);
  ValueId x = ffn_norm(scope, hidden);
  ExpertViews matrices = {scope.stored("gate"), scope.stored("up"), scope.stored("down")};
  ValueId part =
      gated_mlp(scope, x, std::move(matrices), {"gate", "up", "down"}, std::nullopt, "mlp");
  add_residual(scope, hidden, part);
}

void build_router(ShardScope& scope) {
  ValueId hidden = hidden_input(scope);
  ValueId earlier = earlier_router_state(scope);
  ValueId x = ffn_norm(scope, hidden);
  scope.b.output(kRoutingWeights, router(scope, x, earlier));
}

void build_experts(ShardScope& scope) {
  ValueId acc = scope.b.input(kPartialSumPort, scope.token_type_of(scope.model().hidden));
  ValueId hidden = hidden_input(scope);
  ValueId routing = scope.b.input(kRoutingWeights, scope.token_type_of(scope.model().moe.experts));
  ValueId x = ffn_norm(scope, hidden);
  ValueId part = experts_part(scope, x, routing);
  if (scope.model().residual == ResidualKind::plain || scope.decl.first_expert == 0)
    return add_residual(scope, acc, part);
  scope.b.output(kMoeOutPort, add_affine_part(scope, acc, part, "ffn", kMoeOutPort));
}

}  // namespace moec
