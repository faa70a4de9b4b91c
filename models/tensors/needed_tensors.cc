#include "models/tensors/needed_tensors.h"

#include <functional>
#include <set>

#include "ir/base/at.h"
#include "models/tensors/wildcard.h"

namespace moec {
namespace {

// Calls visit(role, layer, expert, dims) for each tensor; layer and expert are -1 where they mean
// nothing.
class Walk {
 public:
  using Visit = std::function<void(std::string_view, int64_t, int64_t, Dims)>;

  Walk(const ModelConfig& model, Visit visit) : model_(model), visit_(std::move(visit)) {}

  void run() {
    visit_("embed", -1, -1, {model_.vocab, model_.hidden});
    affine("embed");
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      layer_ = static_cast<int64_t>(i);
      attention();
      residual("attn");
      norm("ffn_norm");
      if (model_.layers[i].moe)
        moe();
      else
        mlp("gate", "up", "down", model_.dense_ff);
      residual("ffn");
    }
    layer_ = -1;
    norm("final_norm");
    if (!model_.tied_head) need("lm_head", {model_.logits(), model_.hidden});
    if (model_.head_bias) need("lm_head_bias", {model_.logits()});
  }

 private:
  void need(std::string_view role, Dims dims) { visit_(role, layer_, -1, std::move(dims)); }

  void norm(const std::string& role) {
    need(role, {model_.hidden});
    if (model_.norm == NormKind::layer) need(role + "_bias", {model_.hidden});
  }

  // The vectors of affine residuals.
  void affine(const std::string& role) {
    if (model_.residual != ResidualKind::affine) return;
    need(role + "_scale", {model_.hidden});
    need(role + "_bias", {model_.hidden});
  }
  void residual(const std::string& branch) {
    affine(branch + "_part");
    affine(branch + "_residual");
  }

  void attention() {
    const AttentionConfig& attention = model_.attention;
    const int64_t d = model_.hidden;
    const int64_t q = attention.heads * attention.head_dim;
    const int64_t kv = attention.kv_heads * attention.head_dim;
    norm("attn_norm");
    if (attention.latent) return latent_attention(attention, *attention.latent);
    need("q", {q, d});
    need("k", {kv, d});
    if (attention.convolved)
      convolved(attention, *attention.convolved, q + kv);
    else
      need("v", {kv, d});
    need("o", {d, q});
    if (attention.qkv_bias) {
      need("q_bias", {q});
      need("k_bias", {kv});
      if (!attention.convolved) need("v_bias", {kv});
    }
    if (attention.o_bias) need("o_bias", {d});
    if (attention.sinks) need("sinks", {attention.heads});
    if (attention.qk_norm == QkNormWidth::l2_tempered)
      return need("k_temperature", {attention.kv_heads});
    if (attention.qk_norm == QkNormWidth::none || attention.qk_norm == QkNormWidth::l2) return;
    bool full = attention.qk_norm == QkNormWidth::full;
    need("q_norm", {full ? q : attention.head_dim});
    need("k_norm", {full ? kv : attention.head_dim});
  }

  void convolved(const AttentionConfig& attention, const ConvolvedConfig& taps, int64_t channels) {
    const int64_t half = attention.kv_heads * attention.head_dim / 2;
    for (const std::string role : {"v_current", "v_delayed"}) {
      need(role, {half, model_.hidden});
      if (attention.qkv_bias) need(role + "_bias", {half});
    }
    need("channel_conv", {channels, 1, taps.channel_taps});
    need("channel_conv_bias", {channels});
    need("head_conv", {channels, attention.head_dim, taps.head_taps});
    need("head_conv_bias", {channels});
  }

  void latent_attention(const AttentionConfig& attention, const LatentConfig& latent) {
    const int64_t d = model_.hidden, heads = attention.heads, rotated = attention.rope.dims;
    const int64_t q = heads * (latent.key_dims + rotated);
    if (latent.q_rank == 0) {
      need("q", {q, d});
    } else {
      need("q_a", {latent.q_rank, d});
      if (attention.qkv_bias) need("q_a_bias", {latent.q_rank});
      need("q_a_norm", {latent.q_rank});
      need("q_b", {q, latent.q_rank});
    }
    need("kv_a", {latent.kv_rank + rotated, d});
    if (attention.qkv_bias) need("kv_a_bias", {latent.kv_rank + rotated});
    need("kv_a_norm", {latent.kv_rank});
    need("kv_b", {heads * (latent.key_dims + latent.value_dims), latent.kv_rank});
    need("o", {d, heads * latent.value_dims});
    if (attention.o_bias) need("o_bias", {d});
  }

  void mlp(std::string_view gate, std::string_view up, std::string_view down, int64_t width) {
    need(gate, {width, model_.hidden});
    need(up, {width, model_.hidden});
    need(down, {model_.hidden, width});
    mlp_biases(gate, up, down, width);
  }

  void mlp_biases(std::string_view gate, std::string_view up, std::string_view down,
                  int64_t width) {
    if (!model_.mlp_bias) return;
    need(std::string(gate) + "_bias", {width});
    need(std::string(up) + "_bias", {width});
    need(std::string(down) + "_bias", {model_.hidden});
  }

  void moe() {
    const MoeConfig& moe = model_.moe;
    router();
    experts();
    if (moe.shared_ff == 0) return;
    shared_expert(moe.shared_ff);
    if (moe.shared_gated) need("shared_sigmoid_gate", {1, model_.hidden});
  }

  void router() {
    const MoeConfig& moe = model_.moe;
    const int64_t slots = moe.slots(), width = moe.router_hidden;
    need("router", {slots, width > 0 ? width : model_.hidden});
    if (moe.router_bias) need("router_bias", {slots});
    if (width > 0) router_mlp(width);
    if (moe.choice_bias && model_.names.has("router_choice_bias_row"))
      need("router_choice_bias_row", {1, slots});
    else if (moe.choice_bias)
      need("router_choice_bias", {slots});
  }

  void router_mlp(int64_t width) {
    need("router_down", {width, model_.hidden});
    need("router_down_bias", {width});
    if (at(model_.layers, layer_).takes_router_state) need("router_state_scale", {width});
    need("router_norm", {width});
    for (const std::string role : {"router_fc1", "router_fc2"}) {
      need(role, {width, width});
      need(role + "_bias", {width});
    }
  }

  void shared_expert(int64_t width) {
    if (!model_.names.has("shared_gate_up"))
      return mlp("shared_gate_proj", "shared_up", "shared_down", width);
    need("shared_gate_up", {2 * width, model_.hidden});
    need("shared_down", {model_.hidden, width});
    mlp_biases("shared_gate_proj", "shared_up", "shared_down", width);
  }

  void experts() {
    const int64_t d = model_.hidden, f = model_.moe.expert_ff, count = model_.moe.experts;
    if (model_.moe.expert_biases) {
      need("experts_gate_up_bias", {count, 2 * f});
      need("experts_down_bias", {count, d});
    }
    if (model_.names.has("experts_gate_up_in_out")) {
      need("experts_gate_up_in_out", {count, d, 2 * f});
      need("experts_down_in_out", {count, f, d});
      return;
    }
    if (model_.names.has("experts_gate_up")) {
      need("experts_gate_up", {count, 2 * f, d});
      need("experts_down", {count, d, f});
      return;
    }
    for (int64_t e = 0; e < count; ++e) {
      visit_("expert_gate", layer_, e, {f, d});
      visit_("expert_up", layer_, e, {f, d});
      visit_("expert_down", layer_, e, {d, f});
    }
  }

  const ModelConfig& model_;
  Visit visit_;
  int64_t layer_ = -1;
};

}  // namespace

std::vector<NeededTensor> needed_tensors(const ModelConfig& model) {
  std::vector<NeededTensor> needed;
  Walk(model, [&](std::string_view role, int64_t layer, int64_t expert, Dims dims) {
    needed.push_back({std::string(role), model.names(role, layer, expert), std::move(dims)});
  }).run();
  return needed;
}

std::vector<std::string> missing_roles(const ModelConfig& model) {
  std::set<std::string> missing;
  Walk(model, [&](std::string_view role, int64_t, int64_t, const Dims&) {
    if (!model.names.has(role)) missing.emplace(role);
  }).run();
  return {missing.begin(), missing.end()};
}

const std::string* ignoring_pattern(const ModelConfig& model, const std::string& tensor) {
  for (const std::string& pattern : model.names.ignored)
    if (matches_wildcard(tensor, pattern)) return &pattern;
  return nullptr;
}

WeightTable declared_weights(const ModelConfig& model, DType dtype) {
  WeightTable table;
  table.files.push_back({});
  for (NeededTensor& tensor : needed_tensors(model)) {
    TensorRange range{0, table.files[0].bytes, {dtype, std::move(tensor.dims)}};
    table.files[0].bytes += static_cast<uint64_t>(range.type.bytes());
    table.tensors.emplace(std::move(tensor.name), std::move(range));
  }
  return table;
}

}  // namespace moec
