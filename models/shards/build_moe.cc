#include <fmt/format.h>

#include <optional>

#include "ir/experts/expert_runs.h"
#include "ir/graph/port_names.h"
#include "models/shards/affine_residual.h"
#include "models/shards/expert_views.h"
#include "models/shards/feed_forward_sum.h"
#include "models/shards/layer_ports.h"
#include "models/shards/router_views.h"
#include "models/shards/shard_scope.h"
#include "models/shards/width_slices.h"

namespace moec {
namespace {

// In types narrower than f32, subtracts the median from the bias and splits the bias into two
// halves. A common offset does not affect the choice, but if it is large, rounding would hide
// differences between experts.
void append_choice_bias(ShardScope& scope, std::vector<ValueId>& operands) {
  const ValueId logits = operands[0];
  const DType dtype = scope.b.type(logits).dtype;
  WeightView bias = router_choice_bias(scope);
  if (dtype != DType::f32) bias = then(std::move(bias), CenterStep{});
  operands.push_back(scope.weight_like(logits, bias, "router.choice_bias"));
  if (dtype == DType::f32) return;
  WeightView low = then(std::move(bias), RemainderStep{dtype});
  operands.push_back(scope.weight_like(logits, std::move(low), "router.choice_bias_low"));
}

ValueId uncapped_logits(ShardScope& scope, ValueId x, ValueId earlier) {
  const MoeConfig& moe = scope.model().moe;
  if (moe.router_hidden > 0) return router_mlp(scope, x, earlier);
  if (moe.router_map.normed) return normed_router_logits(scope, x);
  std::vector<ValueId> operands = {x, scope.weight_like(x, router_matrix(scope), "router.weight")};
  if (moe.router_map.bias)
    operands.push_back(
        scope.weight_like(x, scope.stored("router_bias", {moe.slots()}), "router.bias"));
  return scope.b.emit(Linear{}, std::move(operands), "router");
}

ValueId router_logits(ShardScope& scope, ValueId x, ValueId earlier) {
  ValueId logits = uncapped_logits(scope, x, earlier);
  const double cap = scope.model().moe.router_map.softcap;
  if (cap == 0) return logits;
  Builder& b = scope.b;
  ValueId bounded = b.unary(UnaryFn::tanh, b.mul(logits, b.scalar_like(logits, 1 / cap)));
  return b.mul(bounded, b.scalar_like(bounded, cap), "router_capped");
}

// The routing weights of the experts. Null slots, which compute nothing, participate in selection
// and renormalisation; their weights are then dropped.
ValueId router(ShardScope& scope, ValueId x, ValueId earlier) {
  const MoeConfig& moe = scope.model().moe;
  std::vector<ValueId> operands = {router_logits(scope, x, earlier)};
  if (moe.choice_bias) append_choice_bias(scope, operands);
  const bool cast = scope.b.type(x).dtype != scope.options().dtype;
  const bool later = moe.null_slots > 0 || moe.router_map.normed || cast;
  ValueId weights =
      scope.b.emit(scope.routing(), std::move(operands), later ? "slot_weights" : kRoutingWeights);
  if (moe.router_map.normed)
    weights = scope.b.mul(
        weights, scope.channel_vector(weights, "router_expert_scale", "router.expert_scale"),
        cast ? "expert_weights" : kRoutingWeights);
  if (moe.null_slots > 0)
    weights = scope.b.slice(weights, kChannelAxis, 0, moe.experts,
                            cast ? "expert_weights" : kRoutingWeights);
  return scope.to_dtype(weights, scope.options().dtype, kRoutingWeights);
}

// The shard's slice of the matrices of an MLP: gate and up [width, d], down [d, width].
ExpertViews sliced_matrices(const ShardScope& scope, ExpertViews all, int64_t width) {
  if (scope.decl.slices == 1) return all;
  const auto [begin, size] = slice_of(scope.decl, width);
  if (all.gate) all.gate = then(*std::move(all.gate), SliceStep{0, begin, size});
  return {std::move(all.gate), then(std::move(all.up), SliceStep{0, begin, size}),
          then(std::move(all.down), SliceStep{1, begin, size})};
}

// The intermediate width of an MLP, which slices divide, and its output channels.
struct MlpWidths {
  int64_t inner = 0, out = 0;
};

// The shard's slice of the biases: gate and up [inner], down [out]. Only the first slice adds the
// bias of down.
ExpertViews sliced_biases(const ShardScope& scope, ExpertViews all, const MlpWidths& widths) {
  if (scope.decl.slices == 1) return all;
  const auto [begin, size] = slice_of(scope.decl, widths.inner);
  if (scope.decl.slice > 0) all.down = splat_view(0, scope.type_of({widths.out}));
  if (all.gate) all.gate = then(*std::move(all.gate), SliceStep{0, begin, size});
  return {std::move(all.gate), then(std::move(all.up), SliceStep{0, begin, size}),
          std::move(all.down)};
}

ExpertViews own_expert_matrices(const ShardScope& scope, int64_t expert) {
  return sliced_matrices(scope, expert_matrices(scope, expert), scope.model().moe.expert_ff);
}
ExpertViews own_expert_biases(const ShardScope& scope, int64_t expert) {
  return sliced_biases(scope, expert_biases(scope, expert),
                       {scope.model().moe.expert_ff, scope.model().expert_width()});
}

// Appends gate, up and down as weights named gate.NAME, up.NAME and down.NAME.
void append_parts(ShardScope& scope, ExpertViews of, const std::string& name,
                  std::vector<ValueId>& operands) {
  if (of.gate) operands.push_back(scope.weight(*std::move(of.gate), "gate." + name));
  operands.push_back(scope.weight(std::move(of.up), "up." + name));
  operands.push_back(scope.weight(std::move(of.down), "down." + name));
}

// Appends the weights that `views` returns for each expert of the run.
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

// The weighted sum of the shard's experts, with expert_width() channels.
ValueId experts(ShardScope& scope, ValueId x, ValueId routing) {
  const std::vector<ExpertRun> runs = expert_runs(scope.decl);
  const char* whole = scope.model().moe.latent > 0 ? "latent_sum" : "experts";
  if (runs.size() == 1) return experts_of_run(scope, x, routing, runs.front(), whole);
  std::optional<ValueId> sum;
  for (const ExpertRun& run : runs) {
    const std::string name = fmt::format("experts_from_{}", run.first);
    const ValueId part = experts_of_run(scope, x, routing, run, name);
    sum = sum ? scope.b.add(*sum, part, name + "_sum") : part;
  }
  return *sum;
}

// The roles of a gated MLP's matrices. A checkpoint stores gate and up as two matrices or as the
// halves of `gate_up`. The role of a bias is the role of its matrix with the suffix _bias.
struct MlpRoles {
  std::string gate, up, down, gate_up;
};

// gate and up [width, d], down [d, width]. A checkpoint stores gate and up as two matrices or as
// the halves of one.
ExpertViews mlp_matrices(const ShardScope& scope, const MlpRoles& roles, int64_t width) {
  const int64_t d = scope.model().hidden;
  WeightView down = scope.stored(roles.down, {d, width});
  if (!scope.model().mlp.gating.has_gate())
    return {std::nullopt, scope.stored(roles.up, {width, d}), std::move(down)};
  if (!scope.model().names.has(roles.gate_up))
    return {scope.stored(roles.gate, {width, d}), scope.stored(roles.up, {width, d}),
            std::move(down)};
  WeightView both = scope.stored(roles.gate_up, {2 * width, d});
  return {then(both, SliceStep{0, 0, width}), then(both, SliceStep{0, width, width}),
          std::move(down)};
}

// gate and up [width], down [d]
ExpertViews mlp_biases(const ShardScope& scope, const MlpRoles& roles, int64_t width) {
  std::optional<WeightView> gate;
  if (scope.model().mlp.gating.has_gate()) gate = scope.stored(roles.gate + "_bias", {width});
  return {std::move(gate), scope.stored(roles.up + "_bias", {width}),
          scope.stored(roles.down + "_bias", {scope.model().hidden})};
}

// A gated MLP; `biases` and `sigmoid_gate` are set if the model has them.
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
      append_parts(scope,
                   sliced_biases(scope, std::move(*views.biases), {width, scope.model().hidden}),
                   "bias", operands);
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

// Input of the shared expert: the norm that routed experts share, or a separate one.
ValueId shared_input(ShardScope& scope, ValueId hidden, ValueId x) {
  return scope.model().moe.parts_normed ? scope.norm(hidden, "ffn_norm") : x;
}

// The sum of the shard's experts. The shared expert is added once per layer: by separate shards if
// it has any, otherwise by the shard with the first expert.
ValueId experts_part(ShardScope& scope, ValueId hidden, ValueId x, ValueId routing) {
  const bool alone = scope.model().moe.shared_ff == 0 || scope.options().slices.shared > 0 ||
                     !has_first_expert(scope.decl, scope.options());
  ValueId sum = experts(scope, to_latent(scope, x), routing);
  sum = from_latent(scope, sum, alone ? LatentBias::elsewhere : LatentBias::here);
  if (alone) return averaged(scope, sum);
  return averaged(scope,
                  joined_parts(scope, sum, shared_expert(scope, shared_input(scope, hidden, x))));
}

// Input of the feed-forward part: the stream after the token mixer, or in parallel blocks the
// stream before it.
ValueId stream_input(ShardScope& scope) {
  const char* port = feed_forward_port(scope.model());
  return scope.b.input(port, scope.token_type_of(scope.model().hidden));
}

// The stream to which a shard of the whole feed-forward part adds its output. `read` is the input
// of the part.
ValueId residual_input(ShardScope& scope, ValueId read) {
  if (!scope.model().stream.parallel) return read;
  return scope.b.input(kHiddenPort, scope.token_type_of(scope.model().hidden));
}

// With host routing, the router and each expert group recompute this norm, which costs less than an
// additional edge between the shards.
ValueId ffn_norm(ShardScope& scope, ValueId hidden) { return scope.part_input(hidden, "ffn_norm"); }

// The router's input norm, in f32 if the router computes in f32.
ValueId router_norm(ShardScope& scope, ValueId hidden) {
  const DType dtype = scope.options().wide_router ? DType::f32 : scope.options().dtype;
  ValueId wide = scope.to_dtype(hidden, dtype, "hidden.wide");
  return scope.model().moe.router_map.normed ? own_router_norm(scope, wide) : ffn_norm(scope, wide);
}

// The experts' input: a separate norm, or the router's norm rounded to the shard's element type.
ValueId expert_input(ShardScope& scope, ValueId hidden, ValueId router_norm) {
  if (scope.model().moe.parts_normed) return scope.norm(hidden, "ffn_routed_norm");
  return scope.to_dtype(router_norm, scope.options().dtype, "expert_input");
}

// The experts' input in a shard without a router.
ValueId expert_input(ShardScope& scope, ValueId hidden) {
  const bool own = scope.model().moe.parts_normed;
  return expert_input(scope, hidden, own ? hidden : router_norm(scope, hidden));
}

ValueId partial_sum_input(ShardScope& scope) {
  return scope.b.input(kPartialSumPort, scope.token_type_of(scope.model().hidden));
}

// The sum of the parts before the shard's part. For a layer's first part, returns the residual
// stream, or nullopt if norms act on the sum.
std::optional<ValueId> sum_before(ShardScope& scope) {
  if (scope.model().norms_feed_forward() && begins_sum(scope.decl, scope.options()))
    return std::nullopt;
  return partial_sum_input(scope);
}

// Adds the shard's part to its layer's feed-forward sum.
void add_part(ShardScope& scope, std::optional<ValueId> sum, ValueId part) {
  Builder& b = scope.b;
  if (scope.model().norms_feed_forward()) {
    b.output(kMoeOutPort, sum ? b.add(*sum, part, kMoeOutPort) : part);
  } else if (scope.model().stream.residual == ResidualKind::plain ||
             is_first_part(scope.decl, scope.options())) {
    b.output(kMoeOutPort, layer_end(scope, *sum, part));
  } else {
    b.output(kMoeOutPort, add_affine_part(scope, *sum, part, "ffn", kMoeOutPort));
  }
}

bool is_last_slice(const ShardDecl& shard) { return shard.slice == shard.slices - 1; }

}  // namespace

void build_moe(ShardScope& scope) {
  ValueId hidden = stream_input(scope);
  ValueId residual = residual_input(scope, hidden);
  ValueId earlier = earlier_router_state(scope);
  ValueId x = router_norm(scope, hidden);
  ValueId routing = router(scope, x, earlier);
  ValueId sum = experts_part(scope, hidden, expert_input(scope, hidden, x), routing);
  scope.b.output(kMoeOutPort, layer_end(scope, residual, sum));
}

void build_mlp(ShardScope& scope) {
  std::optional<ValueId> sum;
  if (scope.decl.slices > 1) sum = sum_before(scope);
  ValueId hidden = stream_input(scope);
  if (scope.decl.slices == 1 && scope.model().stream.parallel) sum = residual_input(scope, hidden);
  ValueId x = ffn_norm(scope, hidden);
  const MlpRoles roles = {"gate", "up", "down", "gate_up"};
  const int64_t width = scope.model().mlp.ff;
  MlpViews views{mlp_matrices(scope, roles, width), std::nullopt, std::nullopt};
  if (scope.model().mlp.bias) views.biases = mlp_biases(scope, roles, width);
  ValueId part = gated_mlp(scope, x, std::move(views), width, "mlp");
  if (!scope.model().norms_feed_forward()) return add_part(scope, sum.value_or(hidden), part);
  if (!is_last_slice(scope.decl)) return add_part(scope, sum, part);
  if (sum) part = scope.b.add(*sum, part, "mlp_sum");
  scope.b.output(kMoeOutPort, layer_end(scope, hidden, part));
}

void build_shared(ShardScope& scope) {
  std::optional<ValueId> sum = sum_before(scope);
  const bool ends = scope.model().norms_feed_forward() && is_last_slice(scope.decl);
  ValueId routed;
  if (ends) routed = scope.b.input(kRoutedSumPort, scope.token_type_of(scope.model().hidden));
  ValueId hidden = stream_input(scope);
  // Without a shared expert, the shard only ends a layer whose sum of experts is normalized.
  if (scope.model().moe.shared_ff == 0) {
    scope.b.output(kMoeOutPort, layer_end(scope, hidden, routed));
    return;
  }
  ValueId x =
      scope.model().moe.parts_normed ? scope.norm(hidden, "ffn_norm") : expert_input(scope, hidden);
  ValueId part = with_latent_bias(scope, shared_expert(scope, x));
  if (!ends) return add_part(scope, sum, averaged(scope, part));
  if (sum) part = scope.b.add(*sum, part, "shared_sum");
  scope.b.output(kMoeOutPort, layer_end(scope, hidden, joined_parts(scope, routed, part)));
}

void build_router(ShardScope& scope) {
  ValueId hidden = stream_input(scope);
  ValueId earlier = earlier_router_state(scope);
  ValueId x = router_norm(scope, hidden);
  scope.b.output(kRoutingWeights, router(scope, x, earlier));
}

void build_experts(ShardScope& scope) {
  std::optional<ValueId> sum = sum_before(scope);
  ValueId hidden = stream_input(scope);
  ValueId routing = scope.b.input(kRoutingWeights, scope.token_type_of(scope.model().moe.experts));
  ValueId x = expert_input(scope, hidden);
  add_part(scope, sum, experts_part(scope, hidden, x, routing));
}

}  // namespace moec
