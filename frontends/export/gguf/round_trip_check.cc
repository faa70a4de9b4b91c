#include "frontends/export/gguf/round_trip_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "backends/formats/gguf/gguf_layout.h"
#include "frontends/export/gguf/model_keys.h"
#include "frontends/sources/gguf/gguf.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "models/tensors/rope.h"

namespace moec {
namespace {

// Relative tolerance for numbers that were rounded to f32, and for frequencies computed from them.
// f32 has 24 significant bits, so rounding changes a number by at most 6e-8 relative to it.
constexpr double kRounding = 1e-6;

bool near(double a, double b) {
  return std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b));
}

// Finds the first difference between two models.
class ModelDifference {
 public:
  ModelDifference(const ModelConfig& wanted, const ModelConfig& said)
      : wanted_(wanted), said_(said) {}

  // Returns "uses WHAT = A, but this model has B"; empty if the models are equal.
  std::string run() {
    compare_sizes();
    compare_kinds_of_attention();
    compare_recurrent();
    compare_experts();
    compare_layers();
    return difference_;
  }

 private:
  template <class T>
  void take(std::string_view what, const T& wanted, const T& said) {
    // Keeps only the first difference: later ones often follow from it.
    if (difference_.empty() && !(wanted == said))
      difference_ = fmt::format("uses {} = {}, but this model has {}", what, said, wanted);
  }
  template <class E>
  void take_name(std::string_view what, E wanted, E said) {
    take(what, enum_name(wanted), enum_name(said));
  }
  void take_number(std::string_view what, double wanted, double said) {
    if (!near(wanted, said)) take(what, wanted, said);
  }

  void compare_sizes() {
    take("hidden", wanted_.hidden, said_.hidden);
    take("vocab", wanted_.vocab, said_.vocab);
    take("layers", wanted_.layers.size(), said_.layers.size());
    take("max_positions", wanted_.max_positions, said_.max_positions);
    take_number("norm_eps", wanted_.norm.eps, said_.norm.eps);
    take_name("norm", wanted_.norm.kind, said_.norm.kind);
    take_number("embedding_scale", wanted_.stream.embedding_scale, said_.stream.embedding_scale);
    take_number("residual_scale", wanted_.stream.residual_scale, said_.stream.residual_scale);
    take_name("residual", wanted_.stream.residual, said_.stream.residual);
    take_name("task", wanted_.head.task, said_.head.task);
    take("pre norms", wanted_.stream.pre_norms, said_.stream.pre_norms);
    take_name("post norms", wanted_.stream.post_norms, said_.stream.post_norms);
    take("layer_scale", wanted_.stream.layer_scale, said_.stream.layer_scale);
    take_number("logits_softcap", wanted_.head.softcap, said_.head.softcap);
    take_number("logits_divisor", wanted_.head.divisor, said_.head.divisor);
    take("head_bias", wanted_.head.bias, said_.head.bias);
    const bool has_dense =
        std::any_of(wanted_.layers.begin(), wanted_.layers.end(),
                    [](const LayerConfig& layer) { return layer.feeds() && !layer.moe; });
    // Without dense layers, the width has no effect and files need not state it.
    if (has_dense) take("dense_ff", wanted_.mlp.ff, said_.mlp.ff);
    take("mlp_bias", wanted_.mlp.bias, said_.mlp.bias);
    take_name("activation", wanted_.mlp.gating.activation, said_.mlp.gating.activation);
    take_number("swiglu_limit", wanted_.mlp.gating.limit, said_.mlp.gating.limit);
    take_number("swiglu_alpha", wanted_.mlp.gating.alpha, said_.mlp.gating.alpha);
  }

  void compare_kinds_of_attention() {
    const auto wanted = wanted_.kinds_of_attention(), said = said_.kinds_of_attention();
    take("number of attention kinds", wanted.size(), said.size());
    for (size_t i = 0; i < std::min(wanted.size(), said.size()); ++i) {
      compare_attention(wanted[i], said[i]);
      compare_rope(wanted[i].rope, said[i].rope);
    }
  }

  void compare_recurrent() {
    const bool has = wanted_.recurrent.has_value();
    take("recurrent layers", has, said_.recurrent.has_value());
    if (!difference_.empty() || !has) return;
    const RecurrentConfig& wanted = *wanted_.recurrent;
    const RecurrentConfig& said = *said_.recurrent;
    take("mixer_taps", wanted.taps, said.taps);
    take("mixer channels", wanted.channels, said.channels);
    take("mixer_bias", wanted.bias, said.bias);
    take("mixer_map_bias", wanted.map_bias, said.map_bias);
    take("mixer_key_heads", wanted.key_heads, said.key_heads);
    take("mixer_value_heads", wanted.value_heads, said.value_heads);
    take("mixer_key_dim", wanted.key_dim, said.key_dim);
    take("mixer_value_dim", wanted.value_dim, said.value_dim);
    take_number("least_log_decay", wanted.least_log_decay.value_or(0),
                said.least_log_decay.value_or(0));
  }

  void compare_attention(const AttentionConfig& wanted, const AttentionConfig& said) {
    take_name("projections", wanted.projections, said.projections);
    take("heads", wanted.heads, said.heads);
    take("kv_heads", wanted.kv_heads, said.kv_heads);
    take("head_dim", wanted.head_dim, said.head_dim);
    take("value_dims", wanted.value_dim, said.value_dim);
    take("qkv_bias", wanted.qkv_bias, said.qkv_bias);
    take("o_bias", wanted.o_bias, said.o_bias);
    take("sinks", wanted.sinks, said.sinks);
    take("gate", wanted.scaling.gate.has_value(), said.scaling.gate.has_value());
    take_number("value_scale", wanted.scaling.value_scale, said.scaling.value_scale);
    take_name("qk_norm", wanted.qk_norm, said.qk_norm);
    take_number("clip_qkv", wanted.scaling.clip_qkv.value_or(0), said.scaling.clip_qkv.value_or(0));
    take_number("attention_scale", wanted.scale, said.scale);
    take("latent attention", wanted.latent.has_value(), said.latent.has_value());
    if (wanted.latent && said.latent) compare_latent(*wanted.latent, *said.latent);
    const QueryTemperature own = wanted.temperature.value_or(QueryTemperature{});
    const QueryTemperature other = said.temperature.value_or(QueryTemperature{});
    take("temperature in all layers", own.everywhere, other.everywhere);
    take_number("temperature_scale", own.scale, other.scale);
    take_number("temperature_step", own.step, other.step);
  }

  void compare_latent(const LatentConfig& wanted, const LatentConfig& said) {
    take("q_rank", wanted.q_rank, said.q_rank);
    take("kv_rank", wanted.kv_rank, said.kv_rank);
    take("key_dims", wanted.key_dims, said.key_dims);
    take("value_dims", wanted.value_dims, said.value_dims);
    take_number("latent_norm_eps", wanted.norm_eps, said.norm_eps);
  }

  // Compares the resulting frequencies and scales, because factors may replace a formula. llama.cpp
  // truncates the range of YaRN for every family.
  void compare_rope(const RopeConfig& wanted, RopeConfig said) {
    said.yarn.truncate = true;
    take_name("rotary style", wanted.style, said.style);
    take("rotary_dims", wanted.dims, said.dims);
    take_number("rope_theta", wanted.theta, said.theta);
    // The loop below requires equal dims. A difference in another field would only be repeated by
    // the frequencies.
    if (!difference_.empty()) return;
    take_number("rotary amplitude", rope_amplitude(wanted), rope_amplitude(said));
    take_number("rotary score scale", rope_score_scale(wanted), rope_score_scale(said));
    const std::vector<double> own = inverse_frequencies(wanted), other = inverse_frequencies(said);
    for (size_t i = 0; i < own.size(); ++i)
      take_number(fmt::format("rotary frequency {}", i), own[i], other[i]);
  }

  void compare_experts() {
    const MoeConfig& wanted = wanted_.moe;
    const MoeConfig& said = said_.moe;
    take("experts", wanted.experts, said.experts);
    if (wanted.experts == 0) return;
    take("expert_ff", wanted.expert_ff, said.expert_ff);
    take("expert_latent", wanted.latent, said.latent);
    take("null_slots", wanted.null_slots, said.null_slots);
    take("router_hidden", wanted.router_hidden, said.router_hidden);
    take("router_bias", wanted.router_map.bias, said.router_map.bias);
    take_number("router_softcap", wanted.router_map.softcap, said.router_map.softcap);
    take("choice_bias", wanted.choice_bias, said.choice_bias);
    take("expert_biases", wanted.expert_biases, said.expert_biases);
    take_name("routed_weight", wanted.weight_on, said.weight_on);
    take("shared_ff", wanted.shared_ff, said.shared_ff);
    take("shared_gated", wanted.shared_gated, said.shared_gated);
    compare_routing(wanted.routing, said.routing);
  }

  void compare_routing(const Router& wanted, const Router& said) {
    take_name("score", wanted.score, said.score);
    take("top_k", wanted.top_k, said.top_k);
    // GGUF states renormalization as a flag, so its forms cannot be compared.
    take("renorm", wanted.renorm != Renorm::none, said.renorm != Renorm::none);
    take_number("routed_scale", wanted.scale, said.scale);
    take("groups", wanted.groups, said.groups);
    // With one group, no group is dropped.
    if (wanted.groups <= 1) return;
    take("groups_kept", wanted.groups_kept, said.groups_kept);
    take_name("group_score", wanted.group_score, said.group_score);
  }

  void compare_layers() {
    if (!difference_.empty()) return;
    for (size_t i = 0; i < wanted_.layers.size(); ++i) {
      const LayerConfig& wanted = wanted_.layers[i];
      const LayerConfig& said = said_.layers[i];
      const auto of_layer = [&](const char* what) {
        return fmt::format("{} of layer {}", what, i);
      };
      take_name(of_layer("parts"), wanted.parts, said.parts);
      take_name(of_layer("mixer"), wanted.mixer, said.mixer);
      take(of_layer("kind of attention"), wanted.attention, said.attention);
      take(of_layer("experts"), wanted.moe, said.moe);
      take(of_layer("window"), wanted.window, said.window);
      take(of_layer("chunk"), wanted.chunk, said.chunk);
      take(of_layer("rotary embedding"), wanted.rotated, said.rotated);
      take(of_layer("look-ahead"), wanted.ahead, said.ahead);
    }
  }

  const ModelConfig& wanted_;
  const ModelConfig& said_;
  std::string difference_;
};

Result<Gguf> header_of(const std::vector<GgufEntry>& entries,
                       const std::vector<ModelTensor>& tensors) {
  std::vector<GgufTensorInfo> infos;
  for (const ModelTensor& tensor : tensors)
    // The header is read for its keys and shapes only, so one type serves all tensors.
    infos.push_back({tensor.name, BlockType::f32, tensor.dims});
  MOEC_ASSIGN(const GgufLayout layout, plan_gguf(entries, std::move(infos)));
  MOEC_ASSIGN(GgufHeader header, parse_gguf(layout.header, layout.file_bytes, "the GGUF file"));
  return Gguf{
      {{"the GGUF file", layout.file_bytes}}, std::move(header.values), std::move(header.tensors)};
}

}  // namespace

Status check_round_trip(const ModelConfig& model, const GgufArchitecture& architecture,
                        const std::vector<GgufEntry>& entries,
                        const std::vector<ModelTensor>& tensors) {
  MOEC_ASSIGN(const Gguf file, header_of(entries, tensors));
  const ReadFloats floats = [&](const GgufTensor& asked) -> Result<std::vector<float>> {
    for (const ModelTensor& tensor : tensors)
      // Only divisors have floats. They are all that the reader needs from payloads.
      if (tensor.name == asked.name) return tensor.floats;
    return std::vector<float>();
  };
  const auto refuse = [&](const Diagnostics& findings) {
    return not_in_gguf(architecture, "does not support this model: " + findings.front().cause);
  };
  const auto said = gguf_model_config(file, floats);
  if (!said) return refuse(said.error());
  const std::string difference = ModelDifference(model, said->model).run();
  if (!difference.empty()) return not_in_gguf(architecture, difference);
  // gguf_checkpoint() also checks the tensors. It comes last, because a difference of the models
  // explains its errors.
  const auto whole = gguf_checkpoint(file, floats);
  return whole ? Status() : refuse(whole.error());
}

}  // namespace moec
