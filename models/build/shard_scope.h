// What the shard builders share: the shard in the making, its sizes, and weights by role.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/at.h"
#include "ir/graph/builder.h"
#include "ir/plan/plan.h"

namespace moec {

struct ShardScope {
  const Plan& plan;
  const ShardDecl& decl;
  int64_t tokens;
  Builder b;

  ShardScope(const Plan& from, const ShardDecl& shard, int64_t width)
      : plan(from), decl(shard), tokens(width), b(shard.name, Form::model) {}

  const ModelConfig& model() const { return plan.model; }
  const BuildOptions& options() const { return plan.build; }

  const LayerConfig& layer() const { return at(model().layers, decl.layer); }

  Type token_type_of(int64_t channels) const {
    return token_type(options().dtype, options().layout, channels, tokens);
  }
  Type type_of(Dims dims) const { return {options().dtype, std::move(dims)}; }

  // The stored tensor of a role in this shard's layer.
  WeightView stored(std::string_view role, int64_t expert = -1) const;
  // A weight op on the view, cast to the shard's element type. `name` is the value's name.
  ValueId weight(WeightView view, std::string name);
  ValueId weight(std::string_view role, std::string name) {
    return weight(stored(role), std::move(name));
  }
  ValueId rms_norm(ValueId x, std::string_view role, const std::string& name, double eps);
  ValueId rms_norm(ValueId x, std::string_view role, const std::string& name) {
    return rms_norm(x, role, name, model().norm_eps);
  }
  // The norm of the model's kind, whose bias where it has one is that of the role ROLE_bias.
  ValueId norm(ValueId x, const std::string& role);
  // The vector of a role, of as many values as `like` has channels, shaped to broadcast over it.
  ValueId channel_vector(ValueId like, std::string_view role, std::string name);
  // residual + residual_scale · part, or affine_sum(); `branch` is "attn" or "ffn".
  ValueId add_residual(ValueId residual, ValueId part, const std::string& branch,
                       const std::string& name);
  // `bias_role` may be empty: no bias.
  ValueId linear(ValueId x, std::string_view role, std::string_view bias_role,
                 const std::string& name);
};

// The builder of the shard's kind.
void build_body(ShardScope& scope);
// Each adds inputs, ops and outputs of one kind of shard.
void build_attention(ShardScope& scope);
void build_moe(ShardScope& scope);      // router, experts, shared expert, residual
void build_mlp(ShardScope& scope);      // a dense layer with its residual
void build_router(ShardScope& scope);   // host routing: the router alone
void build_experts(ShardScope& scope);  // host routing: one group of experts
void build_layers(ShardScope& scope);   // whole layers, of which each part is built as above
void build_head(ShardScope& scope);     // final norm and a slice of the vocabulary

}  // namespace moec
