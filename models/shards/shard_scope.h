// Common state of the shard builders: the shard under construction, its sizes, and its weights by
// role.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/base/at.h"
#include "ir/graph/builder.h"
#include "ir/model/plan.h"

namespace moec {

// A builder's request for a checkpoint tensor: its role (TensorNames in ir/model/model_config.h)
// and its shape from the model's sizes. `layer` and `expert` are -1 if they do not apply.
struct WeightRequest {
  std::string role;
  int64_t layer = -1, expert = -1;
  Dims dims;
};

// Returns a view of exactly the requested shape. Builders have no other access to weights, so a
// source that records requests sees every tensor that a shard reads
// (models/shards/needed_tensors.h).
using WeightSource = std::function<WeightView(const WeightRequest&)>;

// The source that reads the plan's weight table. The plan must outlive it.
WeightSource weights_of(const Plan& plan);

// A linear map to `out` channels: the matrix [out, channels of x] of a role and, with `bias`, the
// vector [out] of the role ROLE_bias.
struct LinearWeights {
  std::string role;
  int64_t out = 0;
  bool bias = false;
};

struct ShardScope {
  const Plan& plan;
  const ShardDecl& decl;
  int64_t tokens;
  WeightSource source;
  // The top-k variant. Null: the first variant of the plan, or the model's top-k.
  const TopKVariant* form = nullptr;
  Builder b;

  ShardScope(const Plan& from, const ShardDecl& shard, int64_t width, WeightSource weights,
             const TopKVariant* top_k = nullptr)
      : plan(from),
        decl(shard),
        tokens(width),
        source(std::move(weights)),
        form(top_k),
        b(shard.name, Form::model) {
    if (!form && !from.build.experts.top_k.empty()) form = &from.build.experts.top_k.front();
  }

  const ModelConfig& model() const { return plan.model; }
  const BuildOptions& options() const { return plan.build; }

  const LayerConfig& layer() const { return at(model().layers, decl.layer); }
  const AttentionConfig& attention() const { return model().attention_of(layer()); }
  // The router of the shard's layer.
  Router routing() const {
    Router router = model().moe.routing;
    if (form) router.top_k = form->layers.at(decl.layer);
    return router;
  }

  Type token_type_of(int64_t channels) const {
    return token_type(options().dtype, options().layout, channels, tokens);
  }
  Type type_of(Dims dims) const { return {options().dtype, std::move(dims)}; }

  // The tensor of a role in this shard's layer, in the shape `dims`.
  WeightView stored(std::string role, Dims dims, int64_t expert = -1) const {
    return source({std::move(role), decl.layer, expert, std::move(dims)});
  }
  // A weight op on the view, cast to the shard's element type. `name` is the value's name.
  ValueId weight(WeightView view, std::string name);
  ValueId weight(std::string role, Dims dims, std::string name) {
    return weight(stored(std::move(role), std::move(dims)), std::move(name));
  }
  // As weight(), but cast to the element type of x.
  ValueId weight_like(ValueId x, WeightView view, std::string name);
  // Casts x to the element type unless it already has it.
  ValueId to_dtype(ValueId x, DType dtype, std::string name = {});
  // The weights of an RMS norm: the role's vector, or 1 + the vector, according to the model's norm
  // kind.
  WeightView norm_weights(const std::string& role, int64_t channels) const;
  // The RMS norm over the channels of x; the role's vector has one weight per channel.
  ValueId rms_norm(ValueId x, const std::string& role, const std::string& name, double eps);
  ValueId rms_norm(ValueId x, const std::string& role, double eps) {
    return rms_norm(x, role, role, eps);
  }
  // The norm of the model's norm kind. With NormKind::layer the bias has the role ROLE_bias.
  ValueId norm(ValueId x, const std::string& role);
  // The input of a layer's part: norm() of the residual stream, or the stream itself in models
  // without norms before their parts.
  ValueId part_input(ValueId residual, const std::string& role) {
    return model().stream.pre_norms ? norm(residual, role) : residual;
  }
  // The role's vector, one value per channel of `like`, shaped to broadcast over `like`.
  ValueId channel_vector(ValueId like, const std::string& role, std::string name);
  // residual + residual_scale · part, or affine_sum() if the model's residuals are affine. If
  // the branch has a post norm, first normalizes the part with the role BRANCH_post_norm. `branch`
  // is "attn" or "ffn".
  ValueId add_residual(ValueId residual, ValueId part, const std::string& branch,
                       const std::string& name);
  ValueId linear(ValueId x, const LinearWeights& weights, const std::string& name);
};

// The rows of the embedding [vocab, hidden] with the model's scale, in the plan's element type.
WeightView embedding_rows(const ModelConfig& model, DType dtype, const WeightSource& source);

// Calls the builder below for the shard's kind.
void build_body(ShardScope& scope);
// Each adds the inputs, ops and outputs of one kind of shard.
void build_attention(ShardScope& scope);
void build_recurrent(ShardScope& scope);  // mixers other than attention
void build_moe(ShardScope& scope);        // router, experts, shared expert, residual
void build_mlp(ShardScope& scope);        // a dense layer with its residual, or a slice of it
void build_router(ShardScope& scope);     // host routing: the router alone
void build_shared(ShardScope& scope);     // host routing: the shared expert, or a slice of it
void build_experts(ShardScope& scope);    // host routing: one group of experts, or a slice of it
void build_layers(ShardScope& scope);     // whole layers, each part built by the builders above
void build_head(ShardScope& scope);       // final norm and a slice of the vocabulary

}  // namespace moec
