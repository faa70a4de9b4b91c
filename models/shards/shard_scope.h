// What the shard builders share: the shard under construction, its sizes, and its weights by role.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/base/at.h"
#include "ir/graph/builder.h"
#include "ir/model/plan.h"

namespace moec {

// A checkpoint tensor as a builder asks for it: by its role (ir/model/model_config.h, TensorNames)
// and with the shape that the model's sizes give it. `layer` and `expert` are -1 where they do not
// apply.
struct WeightRequest {
  std::string role;
  int64_t layer = -1, expert = -1;
  Dims dims;
};

// Answers a request with a view of exactly the requested shape. Builders get weights from nowhere
// else, so a source that only records the requests learns every tensor that a shard reads
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
  // How many experts tokens take. Null: as the first of the plan's forms, or the model has it.
  const TopKForm* form = nullptr;
  Builder b;

  ShardScope(const Plan& from, const ShardDecl& shard, int64_t width, WeightSource weights,
             const TopKForm* top_k = nullptr)
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
  // Of the shard's layer.
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
  // The same, cast to the element type of x.
  ValueId weight_like(ValueId x, WeightView view, std::string name);
  // x in this element type, by a cast unless it has it already.
  ValueId to_dtype(ValueId x, DType dtype, std::string name = {});
  // The weights of an RMS norm as the model's kind of norms has them: the role's vector, or 1 more.
  WeightView norm_weights(const std::string& role, int64_t channels) const;
  // The RMS norm over the channels of x; the role's vector has one weight for each channel.
  ValueId rms_norm(ValueId x, const std::string& role, const std::string& name, double eps);
  ValueId rms_norm(ValueId x, const std::string& role, double eps) {
    return rms_norm(x, role, role, eps);
  }
  // The norm of the model's kind. With NormKind::layer its bias has the role ROLE_bias.
  ValueId norm(ValueId x, const std::string& role);
  // The role's vector with one value for each channel of `like`, shaped to broadcast over `like`.
  ValueId channel_vector(ValueId like, const std::string& role, std::string name);
  // residual + residual_scale · part, or affine_sum() where the model's residuals are affine. With
  // post norms the part is normed first, by the role BRANCH_post_norm.
  // `branch` is "attn" or "ffn".
  ValueId add_residual(ValueId residual, ValueId part, const std::string& branch,
                       const std::string& name);
  ValueId linear(ValueId x, const LinearWeights& weights, const std::string& name);
};

// The rows of the embedding [vocab, hidden], scaled as the model scales them, in the plan's element
// type.
WeightView embedding_rows(const ModelConfig& model, DType dtype, const WeightSource& source);

// Calls the builder below that builds the shard's kind.
void build_body(ShardScope& scope);
// Each adds the inputs, ops and outputs of one kind of shard.
void build_attention(ShardScope& scope);
void build_recurrent(ShardScope& scope);  // of a layer with another mixer, in its place
void build_moe(ShardScope& scope);        // router, experts, shared expert, residual
void build_mlp(ShardScope& scope);        // a dense layer with its residual, or a slice of it
void build_router(ShardScope& scope);     // host routing: the router alone
void build_shared(ShardScope& scope);     // host routing: the shared expert, or a slice of it
void build_experts(ShardScope& scope);    // host routing: one group of experts, or a slice of it
void build_layers(ShardScope& scope);     // whole layers, each part built by the builders above
void build_head(ShardScope& scope);       // final norm and a slice of the vocabulary

}  // namespace moec
