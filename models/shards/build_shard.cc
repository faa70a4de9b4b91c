#include "models/shards/build_shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/base/invariant.h"
#include "models/shards/affine_residual.h"
#include "models/shards/shard_scope.h"
#include "models/tensors/stored_view.h"

namespace moec {

WeightSource weights_of(const Plan& plan) {
  return [&plan](const WeightRequest& request) {
    // plan_model() has checked that the tensor exists and has the requested shape.
    return stored_view(plan.weights, plan.model.stored,
                       plan.model.names(request.role, request.layer, request.expert));
  };
}

ValueId ShardScope::weight(WeightView view, std::string name) {
  return b.weight(then(std::move(view), CastStep{options().dtype}), std::move(name));
}

ValueId ShardScope::weight_like(ValueId x, WeightView view, std::string name) {
  return b.weight(then(std::move(view), CastStep{b.type(x).dtype}), std::move(name));
}

ValueId ShardScope::to_dtype(ValueId x, DType dtype, std::string name) {
  return b.type(x).dtype == dtype ? x : b.cast(x, dtype, std::move(name));
}

WeightView ShardScope::norm_weights(const std::string& role, int64_t channels) const {
  WeightView weights = stored(role, {channels});
  if (!facts_of(model().norm.kind).plus_one) return weights;
  // A dequantization with scale 1 and zero point -1 computes w - (-1) = w + 1.
  const auto number = [](double value) { return splat_view(value, {DType::f32, {1}}); };
  return then(std::move(weights), DequantStep{{channels}, {number(1)}, {number(-1)}});
}

ValueId ShardScope::rms_norm(ValueId x, const std::string& role, const std::string& name,
                             double eps) {
  // weight_like() keeps the norm in f32 if x is f32, as in a wide router.
  ValueId w = weight_like(x, norm_weights(role, channels_of(b.type(x))), name + ".weight");
  return b.emit(RmsNorm{eps}, {x, w}, name);
}

// A layer norm is the RMS norm of x minus its mean, plus a bias: the variance is the mean square of
// the centred values.
ValueId ShardScope::norm(ValueId x, const std::string& role) {
  const auto& [kind, eps] = model().norm;
  if (!facts_of(kind).centred) return rms_norm(x, role, eps);
  ValueId mean = b.reduce(ReduceFn::mean, x, kChannelAxis, role + ".mean");
  ValueId centred = b.sub(x, mean, role + ".centred");
  if (!facts_of(kind).bias) return rms_norm(centred, role, eps);
  ValueId scaled = rms_norm(centred, role, role + ".scaled", eps);
  return b.add(scaled, channel_vector(x, role + "_bias", role + ".bias"), role);
}

ValueId ShardScope::channel_vector(ValueId like, const std::string& role, std::string name) {
  const Type type = b.type(like);  // a copy: adding an op may reallocate the builder's types
  const int64_t channels = channels_of(type);
  return b.reshape(weight_like(like, stored(role, {channels}), std::move(name)),
                   channel_vector_dims(type.layout, channels));
}

// True if a norm applies to the branch's output.
static bool has_post_norm(const ShardScope& scope, const std::string& branch) {
  switch (scope.model().stream.post_norms) {
    case PostNorms::none:
      return false;
    case PostNorms::all:
      return true;
    case PostNorms::moe:
      break;
  }
  return branch == "ffn" && scope.layer().moe;
}

ValueId ShardScope::add_residual(ValueId residual, ValueId part, const std::string& branch,
                                 const std::string& name) {
  // The norm applies to `part` only, before `residual_scale`.
  if (has_post_norm(*this, branch)) part = norm(part, branch + "_post_norm");
  if (model().stream.residual == ResidualKind::affine)
    return affine_sum(*this, residual, part, branch, name);
  const double scale = model().stream.residual_scale;
  if (scale != 1) part = b.mul(part, b.scalar_like(part, scale), name + ".scaled");
  return b.add(residual, part, name);
}

ValueId ShardScope::linear(ValueId x, const LinearWeights& weights, const std::string& name) {
  const auto& [role, out, bias] = weights;
  const int64_t in = channels_of(b.type(x));
  // The weights have the type of `x`, because a router can compute in f32 in an f16 build.
  std::vector<ValueId> operands = {x, weight_like(x, stored(role, {out, in}), name + ".weight")};
  if (bias) operands.push_back(weight_like(x, stored(role + "_bias", {out}), name + ".bias"));
  return b.emit(Linear{}, std::move(operands), name);
}

WeightView embedding_rows(const ModelConfig& model, DType dtype, const WeightSource& source) {
  WeightView rows = source({"embed", -1, -1, {model.vocab, model.hidden}});
  // Scaled in f32: the stored type may be narrower than both the factor and the shards' type.
  if (model.stream.embedding_scale != 1)
    rows =
        then(then(std::move(rows), CastStep{DType::f32}), ScaleStep{model.stream.embedding_scale});
  return then(std::move(rows), CastStep{dtype});
}

WeightView build_embedding(const Plan& plan) {
  return embedding_rows(plan.model, plan.build.dtype, weights_of(plan));
}

void build_body(ShardScope& scope) {
  switch (scope.decl.kind) {
    case ShardKind::attention:
      return is_recurrent(scope.layer().mixer) ? build_recurrent(scope) : build_attention(scope);
    case ShardKind::moe:
      return build_moe(scope);
    case ShardKind::mlp:
      return build_mlp(scope);
    case ShardKind::router:
      return build_router(scope);
    case ShardKind::shared:
      return build_shared(scope);
    case ShardKind::experts:
      return build_experts(scope);
    case ShardKind::lm_head:
      return build_head(scope);
    case ShardKind::layers:
      return build_layers(scope);
  }
}

Result<Shard> build_shard(const Plan& plan, size_t index, int64_t tokens, const TopKVariant* form) {
  MOEC_CHECK(index < plan.shards.size(), "shard {} of {}", index, plan.shards.size());
  const std::vector<int64_t>& widths = plan.build.tokens;
  if (std::find(widths.begin(), widths.end(), tokens) == widths.end())
    return fail("plan.options",
                fmt::format("the plan has no shards for {} tokens, only for {}", tokens,
                            fmt::join(widths, ", ")),
                "choose one of these widths", {.shard = plan.shards[index].name});
  ShardScope scope(plan, plan.shards[index], tokens, weights_of(plan), form);
  build_body(scope);
  return scope.b.finish();
}

}  // namespace moec
