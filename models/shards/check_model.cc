#include "models/shards/check_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

class Checker {
 public:
  template <class... Args>
  bool require(bool condition, std::string code, fmt::format_string<Args...> cause,
               Args&&... args) {
    if (!condition)
      findings_.push_back({Severity::error,
                           std::move(code),
                           fmt::format(cause, std::forward<Args>(args)...),
                           "Correct the config, or download the checkpoint again.",
                           {}});
    return condition;
  }
  void size(std::string_view name, int64_t value) {
    require(value > 0 && value <= kLargest, "model.size", "{} is {}, it must be from 1 to {}", name,
            value, kLargest);
  }
  // A size that the attention and expert ops limit further (ir/graph/infer_composites.cc).
  void count(std::string_view name, int64_t value) {
    require(value > 0 && value <= kLargestCount, "model.size", "{} is {}, it must be from 1 to {}",
            name, value, kLargestCount);
  }
  void matrix(std::string_view name, const Dims& dims) {
    require(checked_elements(dims).has_value(), "model.size",
            "{} has the shape {}, which is empty or has more than {} elements", name,
            to_string(dims), kMaxElements);
  }
  void positive(std::string code, std::string_view name, double value) {
    require(std::isfinite(value) && value > 0, std::move(code), "{} is {}, it must be above 0",
            name, value);
  }
  Diagnostics take() { return std::move(findings_); }
  bool good() const { return findings_.empty(); }

 private:
  static constexpr int64_t kLargest = int64_t{1} << 30;
  static constexpr int64_t kLargestCount = int64_t{1} << 20;
  Diagnostics findings_;
};

bool is_moe(const LayerConfig& layer) { return layer.moe; }
bool is_dense_layer(const LayerConfig& layer) { return layer.feeds() && !layer.moe; }
bool has_moe_layer(const ModelConfig& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), is_moe);
}

// Kimi-K2, the published model with the most experts, has 384 in each of 60 layers: 23,040. A plan
// takes memory for each.
constexpr int64_t kMostExpertsInAll = int64_t{1} << 17;

void check_expert_count(Checker& check, const ModelConfig& model) {
  const int64_t layers = std::count_if(model.layers.begin(), model.layers.end(), is_moe);
  check.require(layers == 0 || model.moe.experts <= kMostExpertsInAll / layers, "model.experts",
                "{} layers of {} experts are more than {} in all, far beyond any published model",
                layers, model.moe.experts, kMostExpertsInAll);
}

void check_temperature(Checker& check, const QueryTemperature& temperature,
                       const AttentionConfig& attention) {
  check.require(std::isfinite(temperature.scale) && temperature.scale >= 0, "model.number",
                "the scale of the queries' temperature is {}; it must be finite and at least 0",
                temperature.scale);
  check.positive("model.number", "the step of the queries' temperature", temperature.step);
  check.require(
      attention.rope.style != RopeStyle::none && !attention.latent, "model.attention",
      "queries can have a temperature only in a model with rotation and without a latent");
}

void check_convolved(Checker& check, const AttentionConfig& attention) {
  const ConvolvedConfig& taps = *attention.convolved;
  check.size("the taps over a channel", taps.channel_taps);
  check.size("the taps over a head", taps.head_taps);
  check.require(taps.history() >= 1, "model.attention",
                "convolutions of {} and {} taps do not see any earlier token", taps.channel_taps,
                taps.head_taps);
  check.require(attention.kv_heads * attention.head_dim % 2 == 0, "model.attention",
                "{} channels of values cannot be halved", attention.kv_heads * attention.head_dim);
  check.require(!attention.latent && !attention.temperature && !attention.clip_qkv &&
                    attention.qk_norm != QkNormWidth::full,
                "model.attention",
                "convolved attention cannot have a latent, a temperature of queries, a clamp or a "
                "norm over all heads");
}

void check_attention(Checker& check, const AttentionConfig& attention) {
  check.count("heads", attention.heads);
  check.count("kv_heads", attention.kv_heads);
  check.count("head_dim", attention.head_dim);
  check.count("value_dim", attention.value_dim);
  if (!check.good()) return;
  check.require(attention.heads % attention.kv_heads == 0, "model.heads",
                "{} query heads cannot share {} key/value heads: the second must divide the first",
                attention.heads, attention.kv_heads);
  check.positive("model.number", "the attention scale", attention.scale);
  if (attention.clip_qkv) check.positive("model.number", "clip_qkv", *attention.clip_qkv);
  if (attention.temperature) check_temperature(check, *attention.temperature, attention);
  if (attention.convolved) check_convolved(check, attention);
  check.require(
      attention.projections != Projections::keys_are_values ||
          (!attention.latent && !attention.convolved && attention.qk_norm != QkNormWidth::full &&
           attention.head_dim == attention.value_dim),
      "model.attention",
      "keys can be the values only of attention without latent and convolution, whose norms "
      "are of each head");
  if (!attention.latent) return;
  check.size("kv_rank", attention.latent->kv_rank);
  check.size("shared_dims", attention.latent->shared_dims);
  check.size("key_dims", attention.latent->key_dims);
  check.size("value_dims", attention.latent->value_dims);
  check.require(attention.rope.style == RopeStyle::none ||
                    attention.rope.dims == attention.latent->shared_dims,
                "model.rope",
                "{} rotated dims of a latent attention with {} dims that all keys share",
                attention.rope.dims, attention.latent->shared_dims);
  check.require(attention.latent->q_rank >= 0, "model.size", "q_rank is {}; it must be at least 0",
                attention.latent->q_rank);
  check.require(std::isfinite(attention.latent->norm_eps) && attention.latent->norm_eps >= 0,
                "model.number", "the latents' norm eps is {}", attention.latent->norm_eps);
}

// The tables of all rotations lie in one file, and the sizes of latent attention in one place.
void check_kinds_of_attention(Checker& check, const ModelConfig& model) {
  const auto others = std::ssize(model.more_attention);
  for (const AttentionConfig& other : model.more_attention)
    check.require(!model.attention.latent && !other.latent && !other.temperature &&
                      other.rope.style == model.attention.rope.style,
                  "model.attention",
                  "layers with another attention cannot have a latent, a temperature of queries or "
                  "another style of rotation");
  for (size_t i = 0; i < model.layers.size(); ++i)
    check.require(model.layers[i].attention >= 0 && model.layers[i].attention <= others,
                  "model.attention", "layer {} has attention {} of {}", i,
                  model.layers[i].attention, others + 1);
}

// What lies between the parts of a layer's feed-forward and the residual stream.
void check_norms_of_parts(Checker& check, const ModelConfig& model) {
  if (model.norms_feed_forward())
    check.require(model.stream.residual == ResidualKind::plain, "model.residual",
                  "norms behind attention and feed-forward need plain residuals");
  else
    check.require(!model.stream.layer_scale, "model.residual",
                  "a factor on the stream behind each layer needs norms behind its parts");
  check.require(!model.moe.parts_normed || model.moe.shared_ff > 0, "model.experts",
                "norms beside those of the experts need a shared expert");
  check.require(
      !model.moe.router_normed ||
          (model.moe.router_hidden == 0 && model.moe.null_slots == 0 && !model.moe.router_bias),
      "model.router", "a router with a norm of its own cannot have an MLP, null slots or a bias");
}

void check_kimi_delta(Checker& check, const ModelConfig& model) {
  const RecurrentConfig& recurrent = *model.recurrent;
  const double least = recurrent.least_log_decay.value_or(-1);
  check.require(std::isfinite(least) && least < 0, "model.mixer",
                "the log decays of a token lie above {}; the bound must be below 0", least);
  const auto is_kimi_delta = [](const LayerConfig& layer) {
    return layer.mixer == MixerKind::kimi_delta;
  };
  if (std::none_of(model.layers.begin(), model.layers.end(), is_kimi_delta)) return;
  check.require(
      recurrent.key_heads == recurrent.value_heads, "model.mixer",
      "{} value heads and {} key heads, whose channels decay one by one; the numbers must "
      "be equal",
      recurrent.value_heads, recurrent.key_heads);
}

void check_recurrent(Checker& check, const ModelConfig& model) {
  const auto attends = [](const LayerConfig& layer) {
    return !layer.mixes() || layer.mixer == MixerKind::attention;
  };
  if (std::all_of(model.layers.begin(), model.layers.end(), attends)) return;
  if (!check.require(model.recurrent.has_value() && model.keeps_cache(), "model.mixer",
                     "layers go through their tokens one after another, and the model has no sizes "
                     "for them, or tokens that see later ones"))
    return;
  const RecurrentConfig& recurrent = *model.recurrent;
  check.require(recurrent.taps >= 1, "model.mixer", "a convolution over {} tokens", recurrent.taps);
  check.size("channels of the mixer", recurrent.channels);
  if (recurrent.key_heads == 0) return;
  check.require(recurrent.value_heads % recurrent.key_heads == 0, "model.mixer",
                "{} value heads cannot share {} key heads: the second must divide the first",
                recurrent.value_heads, recurrent.key_heads);
  check.matrix("the state of a layer", recurrent.state());
  check_kimi_delta(check, model);
}

void check_factors(Checker& check, const RopeFactors& factors, int64_t dims) {
  auto positive = [](double f) { return std::isfinite(f) && f > 0; };
  check.require(std::ssize(factors.of) == dims / 2 &&
                    std::all_of(factors.of.begin(), factors.of.end(), positive),
                "model.rope", "longrope needs {} factors above 0 in each list; one list has {}",
                dims / 2, factors.of.size());
  check.positive("model.rope", "longrope's amplitude", factors.amplitude);
}

void check_rope(Checker& check, const RopeConfig& rope, int64_t head_dim) {
  if (rope.style == RopeStyle::none) return;
  check.require(rope.dims > 0 && rope.dims % 2 == 0 && rope.dims <= head_dim, "model.rope",
                "{} rotated dims of a head of {}: the number must be even and at most the head's",
                rope.dims, head_dim);
  check.require(std::isfinite(rope.theta) && rope.theta > 1, "model.rope",
                "rope_theta is {}, it must be above 1", rope.theta);
  if (rope.scaling == RopeScaling::none) return;
  if (rope.scaling == RopeScaling::longrope) {
    check_factors(check, rope.short_factors, rope.dims);
    check_factors(check, rope.long_factors, rope.dims);
  }
  check.positive("model.rope", "the rope factor", rope.factor);
  if (rope.scaling == RopeScaling::proportional)
    check.require(rope.share > 0 && rope.share <= 1, "model.rope",
                  "a share of {} of the pairs turns; it must be above 0 and at most 1", rope.share);
  if (rope.scaling == RopeScaling::proportional) return;
  if (rope.scaling == RopeScaling::linear) return;
  check.positive("model.rope", "original_max_position_embeddings", rope.original_max_positions);
  if (rope.scaling == RopeScaling::llama3)
    check.require(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor,
                  "model.rope", "low_freq_factor {} must be above 0 and below high_freq_factor {}",
                  rope.low_freq_factor, rope.high_freq_factor);
  if (rope.scaling == RopeScaling::yarn)
    check.require(rope.yarn.slow > 0 && rope.yarn.fast >= rope.yarn.slow, "model.rope",
                  "beta_slow {} must be above 0 and at most beta_fast {}", rope.yarn.slow,
                  rope.yarn.fast);
}

void check_latent(Checker& check, const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  if (moe.latent == 0) return;
  check.size("the latent of the experts", moe.latent);
  check.require(moe.shared_ff > 0 || !model.mlp.bias, "model.experts",
                "the bias behind the latent of the experts is added with the shared expert, which "
                "this model does not have");
  check.require(!moe.parts_normed && moe.weight_on == RoutedWeight::output, "model.experts",
                "experts that read a latent cannot have norms of their own, or routing weights on "
                "what they read");
}

void check_moe(Checker& check, const MoeConfig& moe) {
  const Router& routing = moe.routing;
  check.count("experts", moe.experts);
  check.size("expert_ff", moe.expert_ff);
  check.require(routing.top_k >= 1 && routing.top_k <= moe.experts, "model.top_k",
                "each token chooses {} of {} experts; the number must be from 1 to {}",
                routing.top_k, moe.experts, moe.experts);
  if (!check.require(routing.groups >= 1 && moe.experts % routing.groups == 0 &&
                         routing.groups_kept >= 1 && routing.groups_kept <= routing.groups,
                     "model.groups", "{} experts cannot be chosen from {} of {} groups",
                     moe.experts, routing.groups_kept, routing.groups))
    return;
  int64_t group = moe.experts / routing.groups;
  check.require(routing.groups == 1 || routing.top_k <= group * routing.groups_kept, "model.top_k",
                "each token chooses {} experts, but {} kept groups of {} have only {}",
                routing.top_k, routing.groups_kept, group, group * routing.groups_kept);
  check.require(routing.groups == 1 || routing.group_score == GroupScore::max || group >= 2,
                "model.groups",
                "groups of one expert cannot be scored by the sum of their two best scores");
  check.require(!picks_two(routing.score) || routing.top_k == 2, "model.top_k",
                "sparsemixer chooses 2 experts, not {}", routing.top_k);
  check.require(routing.groups == 1 || moe.null_slots == 0, "model.groups",
                "null slots cannot be combined with {} groups of experts", routing.groups);
  check.require(moe.weight_on == RoutedWeight::output || !moe.expert_biases, "model.experts",
                "experts whose inputs the routing weight multiplies cannot have biases");
  check.require(std::isfinite(routing.eps) && routing.eps >= 0, "model.number",
                "the router's eps is {}", routing.eps);
  check.require(std::isfinite(routing.scale), "model.number", "the routed scale is {}",
                routing.scale);
}

void check_gating(Checker& check, const Gating& gating) {
  if (gating.activation != Activation::clamped_swiglu) return;
  check.positive("model.number", "the limit of clamped_swiglu", gating.limit);
  check.require(std::isfinite(gating.alpha), "model.number", "the alpha of clamped_swiglu is {}",
                gating.alpha);
}

// Experts are of the feed-forward part, and the vectors of affine residuals belong to whole layers.
void check_parts(Checker& check, const ModelConfig& model) {
  for (size_t i = 0; i < model.layers.size(); ++i)
    check.require(model.layers[i].feeds() || !model.layers[i].moe, "model.layers",
                  "layer {} has experts and no feed-forward part", i);
  const auto whole = [](const LayerConfig& layer) { return layer.parts == LayerParts::both; };
  check.require(model.stream.residual == ResidualKind::plain ||
                    std::all_of(model.layers.begin(), model.layers.end(), whole),
                "model.layers", "layers of one part cannot have affine residuals");
}

// A layer that takes a router state needs a layer before it whose router has one.
void check_router_states(Checker& check, const ModelConfig& model) {
  check.require(model.moe.router_hidden >= 0 && model.moe.null_slots >= 0, "model.size",
                "a router's MLP of {} channels, {} null slots", model.moe.router_hidden,
                model.moe.null_slots);
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].takes_router_state)
      check.require(
          model.moe.router_hidden > 0 && model.layers[i].moe && i > 0 && model.layers[i - 1].moe,
          "model.router", "layer {} takes a router state that layer {} does not have", i,
          static_cast<int64_t>(i) - 1);
}

// MXFP4 and grouped int4 cannot store a partial block. Experts are stored in them, so the sizes of
// experts must be whole blocks.
void check_storage(Checker& check, const ModelConfig& model) {
  const WeightCoding coding = model.stored.coding;
  if (coding != WeightCoding::mxfp4 && coding != WeightCoding::int4_groups) return;
  const int64_t block = coding == WeightCoding::mxfp4 ? kMxBlock : kInt4Packed;
  std::vector<int64_t> sizes = {model.hidden, model.moe.expert_ff};
  if (model.moe.latent > 0) sizes.push_back(model.moe.latent);
  for (const int64_t size : sizes)
    check.require(size % block == 0, "model.storage",
                  "rows of {} elements are not a multiple of {}, the block of {}", size, block,
                  enum_name(coding));
}

// If tokens see later ones in one layer, the model takes a text as a whole. So all layers must see
// later tokens: a layer that does not would need a cache.
void check_sight(Checker& check, const ModelConfig& model) {
  int64_t looking_ahead = 0;
  for (const LayerConfig& layer : model.layers) {
    looking_ahead += layer.ahead > 0;
    check.require(layer.ahead >= 0, "model.number", "a query sees {} later keys", layer.ahead);
    check.require(layer.ahead == 0 || layer.chunk == 0, "model.attention",
                  "queries that see later keys cannot attend in chunks");
  }
  const auto layers = std::ssize(model.layers);
  check.require(looking_ahead == 0 || looking_ahead == layers, "model.attention",
                "{} of {} layers see later tokens; none or all must", looking_ahead, layers);
}

void check_task(Checker& check, const ModelConfig& model) {
  if (model.head.task == Task::text_generation) {
    check.require(model.head.labels.empty(), "model.labels",
                  "a model that generates text has {} labels", model.head.labels.size());
    return;
  }
  check.size("labels", std::ssize(model.head.labels));
  check.require(!model.head.tied, "model.labels",
                "a head that scores labels cannot be tied to the embedding");
}

// Checks the largest matrices. Sizes can be valid one by one and their product too large, and the
// builders rely on every tensor having at most kMaxElements elements.
void check_matrices(Checker& check, const ModelConfig& model) {
  const AttentionConfig& attention = model.attention;
  const int64_t d = model.hidden, q = attention.heads * attention.head_dim;
  check.matrix("the embedding", {model.vocab, d});
  for (const AttentionConfig& kind : model.kinds_of_attention())
    check.matrix("the query matrix", {kind.heads * kind.head_dim, d});
  if (model.recurrent)
    check.matrix("the matrix in front of the mixer",
                 {2 * model.recurrent->channels + 2 * model.recurrent->value_heads + 3 * d, d});
  if (attention.convolved)
    check.matrix("the convolution over heads",
                 {2 * q, attention.head_dim, attention.convolved->head_taps});
  if (attention.latent)
    check.matrix("the matrix of keys and values",
                 {attention.heads, attention.latent->key_dims + attention.latent->value_dims,
                  attention.latent->kv_rank});
  if (model.mlp.ff > 0) check.matrix("the matrix of a dense layer", {model.mlp.ff, d});
  const MoeConfig& moe = model.moe;
  if (!has_moe_layer(model)) return;
  check.matrix("the experts' matrix", {moe.experts, 2, moe.expert_ff, model.expert_width()});
  if (moe.latent > 0) check.matrix("the map to the experts' latent", {moe.latent, d});
  check.matrix("the router's matrix", {moe.slots(), std::max(moe.router_hidden, d)});
  if (moe.shared_ff > 0) check.matrix("the shared expert's matrix", {2, moe.shared_ff, d});
}

void check_roles(Checker& check, const ModelConfig& model) {
  for (const std::string& role : missing_roles(model))
    check.require(false, "model.roles", "the family {} names no tensor for the role \"{}\"",
                  model.family, role);
}

}  // namespace

Diagnostics check_model(const ModelConfig& model) {
  Checker check;
  check.size("hidden", model.hidden);
  check.size("vocab", model.vocab);
  check.size("max_positions", model.max_positions);
  check.size("layers", std::ssize(model.layers));
  check.require(std::isfinite(model.norm.eps) && model.norm.eps >= 0, "model.number",
                "the norm eps is {}", model.norm.eps);
  check.positive("model.number", "the embedding scale", model.stream.embedding_scale);
  check.positive("model.number", "the residual scale", model.stream.residual_scale);
  check.positive("model.number", "the divisor of the logits", model.head.divisor);
  check_gating(check, model.mlp.gating);
  check.require(std::isfinite(model.head.softcap) && model.head.softcap >= 0, "model.number",
                "the cap of the logits is {}; it must be at least 0", model.head.softcap);
  for (const AttentionConfig& kind : model.kinds_of_attention()) {
    check_attention(check, kind);
    check_rope(check, kind.rope, kind.head_dim);
  }
  check_kinds_of_attention(check, model);
  check_norms_of_parts(check, model);
  check_recurrent(check, model);
  if (has_moe_layer(model)) {
    check_moe(check, model.moe);
    check_latent(check, model);
  }
  if (std::any_of(model.layers.begin(), model.layers.end(), is_dense_layer))
    check.require(model.mlp.ff > 0, "model.dense",
                  "there are dense layers, but the config gives no width for them");
  check.require(!model.attention.convolved || model.keeps_cache(), "model.attention",
                "convolved attention needs earlier tokens, but this model keeps no cache");
  check_parts(check, model);
  check_router_states(check, model);
  check_storage(check, model);
  check_sight(check, model);
  check_task(check, model);
  if (check.good()) check_expert_count(check, model);
  if (check.good()) check_matrices(check, model);
  if (check.good()) check_roles(check, model);  // runs the builders, which need a valid model
  return check.take();
}

}  // namespace moec
