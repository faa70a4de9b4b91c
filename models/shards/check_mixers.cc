#include "models/shards/check_mixers.h"

#include <algorithm>
#include <cmath>

namespace moec {
namespace {

void check_temperature(ConfigChecker& check, const QueryTemperature& temperature,
                       const AttentionConfig& attention) {
  check.require(std::isfinite(temperature.scale) && temperature.scale >= 0, "model.number",
                "the scale of the query temperature is {}, must be finite and at least 0",
                temperature.scale);
  check.positive("model.number", "the step of the query temperature", temperature.step);
  check.require(attention.rope.style != RopeStyle::none, "model.attention",
                "a query temperature requires a model with rotation");
}

void check_convolved(ConfigChecker& check, const AttentionConfig& attention) {
  const ConvolvedConfig& taps = *attention.convolved;
  check.size("the taps per channel", taps.channel_taps);
  check.size("the taps per head", taps.head_taps);
  check.require(taps.history() >= 1, "model.attention",
                "convolutions of {} and {} taps read no earlier token", taps.channel_taps,
                taps.head_taps);
  // Half of the value channels come from the current token, the other half from the previous one.
  check.require(attention.kv_heads * attention.head_dim % 2 == 0, "model.attention",
                "the number of value channels is {}, must be even",
                attention.kv_heads * attention.head_dim);
  check.require(!attention.latent && !attention.temperature && !attention.scaling.clip_qkv &&
                    attention.qk_norm != QkNormWidth::full,
                "model.attention",
                "convolved attention cannot have a latent, a query temperature, a clamp or a norm "
                "over all heads");
}

void check_attention(ConfigChecker& check, const AttentionConfig& attention) {
  check.count("heads", attention.heads);
  check.count("kv_heads", attention.kv_heads);
  check.count("head_dim", attention.head_dim);
  check.count("value_dim", attention.value_dim);
  // The remainder heads % kv_heads requires a positive divisor.
  if (!check.good()) return;
  check.require(attention.heads % attention.kv_heads == 0, "model.heads",
                "{} query heads are not divisible by {} key/value heads", attention.heads,
                attention.kv_heads);
  check.positive("model.number", "the attention scale", attention.scale);
  check.positive("model.number", "the scale of the values", attention.scaling.value_scale);
  if (attention.scaling.clip_qkv)
    check.positive("model.number", "clip_qkv", *attention.scaling.clip_qkv);
  if (attention.temperature) check_temperature(check, *attention.temperature, attention);
  if (attention.convolved) check_convolved(check, attention);
  check.require(
      attention.projections != Projections::keys_are_values ||
          (!attention.latent && !attention.convolved && attention.qk_norm != QkNormWidth::full &&
           attention.head_dim == attention.value_dim),
      "model.attention",
      "keys_are_values requires attention without latent and convolution, and norms per "
      "head");
  if (!attention.latent) return;
  check.size("kv_rank", attention.latent->kv_rank);
  check.size("shared_dims", attention.latent->shared_dims);
  check.size("key_dims", attention.latent->key_dims);
  check.size("value_dims", attention.latent->value_dims);
  check.require(attention.rope.style == RopeStyle::none ||
                    attention.rope.dims == attention.latent->shared_dims,
                "model.rope",
                "{} rotated dims in latent attention, expected {} as shared by the keys",
                attention.rope.dims, attention.latent->shared_dims);
  check.require(attention.latent->q_rank >= 0, "model.size", "q_rank is {}, must be at least 0",
                attention.latent->q_rank);
  check.require(std::isfinite(attention.latent->norm_eps) && attention.latent->norm_eps >= 0,
                "model.number", "the latents' norm eps is {}, must be finite and at least 0",
                attention.latent->norm_eps);
}

// All kinds of attention must share one style of rotation, because one file contains all tables.
// With several kinds, none can have a latent, because latent sizes are stored once per model.
// Additional kinds cannot have a query temperature, because the file contains factors of the first
// kind only.
void check_kinds_of_attention(ConfigChecker& check, const ModelConfig& model) {
  const auto others = std::ssize(model.more_attention);
  for (const AttentionConfig& other : model.more_attention)
    check.require(
        !model.attention.latent && !other.latent && !other.temperature &&
            other.rope.style == model.attention.rope.style,
        "model.attention",
        "additional kinds of attention cannot have a latent, a query temperature or another "
        "style of rotation");
  for (size_t i = 0; i < model.layers.size(); ++i)
    check.require(model.layers[i].attention >= 0 && model.layers[i].attention <= others,
                  "model.attention", "layer {} has attention kind {}, the model has {} kinds", i,
                  model.layers[i].attention, others + 1);
}

void check_kimi_delta(ConfigChecker& check, const ModelConfig& model) {
  const RecurrentConfig& recurrent = *model.recurrent;
  // An absent bound is valid: -1 is a value that passes the check.
  const double least = recurrent.least_log_decay.value_or(-1);
  check.require(std::isfinite(least) && least < 0, "model.mixer",
                "the lower bound of log decays is {}, must be finite and below 0", least);
  const auto is_kimi_delta = [](const LayerConfig& layer) {
    return layer.mixer == MixerKind::kimi_delta;
  };
  if (std::none_of(model.layers.begin(), model.layers.end(), is_kimi_delta)) return;
  check.require(recurrent.key_heads == recurrent.value_heads, "model.mixer",
                "{} value heads and {} key heads with decays per channel, the numbers must be "
                "equal",
                recurrent.value_heads, recurrent.key_heads);
}

void check_recurrent(ConfigChecker& check, const ModelConfig& model) {
  const auto attends = [](const LayerConfig& layer) {
    return !layer.mixes() || !is_recurrent(layer.mixer);
  };
  if (std::all_of(model.layers.begin(), model.layers.end(), attends)) return;
  if (!check.require(
          model.recurrent.has_value() && model.keeps_cache(), "model.mixer",
          "recurrent layers require their sizes in the config, and a model in which tokens "
          "do not see later tokens"))
    return;
  const RecurrentConfig& recurrent = *model.recurrent;
  check.require(recurrent.taps >= 1, "model.mixer",
                "the mixer's convolution has {} taps, must have at least 1", recurrent.taps);
  check.size("channels of the mixer", recurrent.channels);
  // Short convolutions have neither heads nor a state to check.
  if (recurrent.key_heads == 0) return;
  check.require(recurrent.value_heads % recurrent.key_heads == 0, "model.mixer",
                "{} value heads are not divisible by {} key heads", recurrent.value_heads,
                recurrent.key_heads);
  check.matrix("the state of a layer", recurrent.state());
  check_kimi_delta(check, model);
}

void check_factors(ConfigChecker& check, const RopeFactors& factors, int64_t dims) {
  auto positive = [](double f) { return std::isfinite(f) && f > 0; };
  check.require(std::ssize(factors.of) == dims / 2 &&
                    std::all_of(factors.of.begin(), factors.of.end(), positive),
                "model.rope", "longrope needs {} factors above 0 per list, one list has {}",
                dims / 2, factors.of.size());
  check.positive("model.rope", "longrope's amplitude", factors.amplitude);
}

void check_original_positions(ConfigChecker& check, const RopeConfig& rope) {
  check.positive("model.rope", "original_max_position_embeddings", rope.original_max_positions);
}

void check_scaling(ConfigChecker& check, const RopeConfig& rope) {
  switch (rope.scaling) {
    case RopeScaling::none:
    case RopeScaling::linear:
      return;
    case RopeScaling::llama3:
      check_original_positions(check, rope);
      check.require(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor,
                    "model.rope",
                    "low_freq_factor {} must be above 0 and below high_freq_factor {}",
                    rope.low_freq_factor, rope.high_freq_factor);
      return;
    case RopeScaling::yarn:
      check_original_positions(check, rope);
      check.require(rope.yarn.slow > 0 && rope.yarn.fast >= rope.yarn.slow, "model.rope",
                    "beta_slow {} must be above 0 and at most beta_fast {}", rope.yarn.slow,
                    rope.yarn.fast);
      return;
    case RopeScaling::longrope:
      check_original_positions(check, rope);
      check_factors(check, rope.short_factors, rope.dims);
      check_factors(check, rope.long_factors, rope.dims);
      return;
    case RopeScaling::proportional:
      check.require(rope.share > 0 && rope.share <= 1, "model.rope",
                    "the share of rotated pairs is {}, must be above 0 and at most 1", rope.share);
      return;
  }
}

void check_rope(ConfigChecker& check, const RopeConfig& rope, int64_t head_dim) {
  if (rope.style == RopeStyle::none) return;
  check.require(rope.dims > 0 && rope.dims % 2 == 0 && rope.dims <= head_dim, "model.rope",
                "{} rotated dims in heads of {} dims, must be even and at most the head's",
                rope.dims, head_dim);
  // yarn_dim() divides by log(theta), which is 0 for theta = 1.
  check.require(std::isfinite(rope.theta) && rope.theta > 1, "model.rope",
                "rope_theta is {}, must be above 1", rope.theta);
  if (rope.scaling != RopeScaling::none)
    check.positive("model.rope", "the rope factor", rope.factor);
  check_scaling(check, rope);
}

}  // namespace

void check_mixers(ConfigChecker& check, const ModelConfig& model) {
  for (const AttentionConfig& kind : model.kinds_of_attention()) {
    check_attention(check, kind);
    check_rope(check, kind.rope, kind.head_dim);
  }
  check_kinds_of_attention(check, model);
  check_recurrent(check, model);
}

}  // namespace moec
