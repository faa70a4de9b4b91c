// The configuration of token mixers: rotary embeddings, attention and recurrent mixers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/base/enum_table.h"
#include "ir/graph/op_enums.h"
#include "ir/graph/type.h"

namespace moec {

enum class RopeScaling : uint8_t { none, linear, llama3, yarn, longrope, proportional };
constexpr auto enum_names(RopeScaling) {
  return name_table<RopeScaling>({"none", "linear", "llama3", "yarn", "longrope", "proportional"});
}

// longrope: the divisor of each frequency (`of`), and the factor of cos and sin (`amplitude`).
struct RopeFactors {
  std::vector<double> of;
  double amplitude = 1;
  bool operator==(const RopeFactors&) const = default;
};

// yarn: frequencies with more than `fast` rotations within the original positions are kept.
// Frequencies with fewer than `slow` rotations are divided by the factor; the others are
// interpolated.
struct YarnRange {
  double fast = 32, slow = 1;
  bool truncate = true;  // the ends of the range are rounded outwards to whole dims
  bool operator==(const YarnRange&) const = default;
};

// Rotary embedding. The formulas are in models/tensors/rope.h.
struct RopeConfig {
  RopeStyle style = RopeStyle::half;
  int64_t dims = 0;  // rotated leading dims of each head
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  double original_max_positions = 0;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  YarnRange yarn;
  std::optional<double> attention_factor, mscale, mscale_all_dim;
  RopeFactors short_factors, long_factors;  // longrope: up to original_max_positions, and beyond
  double share = 1;  // proportional: fraction of the pairs, from the first, that rotate
  bool operator==(const RopeConfig&) const = default;
};

// Scope of a family's q and k norms: each head before or after the rotation, or all heads at once
// (full). l2: each head after the rotation, without weights, only in layers that rotate.
// l2_tempered: before the rotation, without weights, but with one factor per head of keys.
// per_head_values: as per_head, plus the values of each head divided by their rms, without weights.
enum class QkNormWidth : uint8_t {
  none,
  per_head,
  per_head_rotated,
  full,
  l2,
  l2_tempered,
  per_head_values
};
constexpr auto enum_names(QkNormWidth) {
  return name_table<QkNormWidth>(
      {"none", "per_head", "per_head_rotated", "full", "l2", "l2_tempered", "per_head_values"});
}

// eps of l2_tempered. It keeps the norm of a zero vector finite, even in f16, and is lost to
// rounding for other vectors.
inline constexpr double kTemperedNormEps = 1e-12;

// In layers that do not rotate, the queries of position p are multiplied by
// 1 + scale · ln(1 + floor((p + 1) / step)). With `everywhere`, those of all layers are, by p
// instead of p + 1.
struct QueryTemperature {
  double scale = 0, step = 1;
  bool everywhere = false;
  bool operator==(const QueryTemperature&) const = default;
};

// Multi-head latent attention. The keys and values of all heads are linear maps of one latent
// vector of kv_rank dims per token. All keys also share `shared_dims` dims; if the model rotates,
// only the shared dims rotate.
struct LatentConfig {
  int64_t q_rank = 0;  // width of the queries' latent; 0: queries are projected directly
  int64_t kv_rank = 0;
  int64_t shared_dims = 0;  // of all keys
  int64_t key_dims = 0;     // of a head's keys, without the shared dims
  int64_t value_dims = 0;   // of a head's values
  double norm_eps = 0;      // of the latents' norms
  bool expanded = false;    // the cache contains keys and values per head instead of the latent
  bool operator==(const LatentConfig&) const = default;
};

// Attention with convolutions of the projections over time (models/shards/build_attention.cc). Taps
// are numbers of tokens, the current token included.
struct ConvolvedConfig {
  int64_t channel_taps = 0;  // of the convolution per channel
  int64_t head_taps = 0;     // of the convolution over the channels of each head
  // Number of earlier tokens whose projections a step needs.
  int64_t history() const { return channel_taps + head_taps - 2; }
  bool operator==(const ConvolvedConfig&) const = default;
};

// Token mixer of a layer. All mixers except attention process tokens in order and have a state of
// fixed size instead of a cache (models/shards/decaying_mixer.h).
//   short_conv   a gated convolution over each channel
//   gated_delta  a convolution, then one matrix per head that decays and is corrected by each
//                token (gated delta rule)
//   ssd          a convolution, then one matrix per head that decays and accumulates each token
//                (state space duality, Mamba-2)
//   kimi_delta   as gated_delta, but with a decay per channel of the keys (Kimi Delta Attention)
enum class MixerKind : uint8_t { attention, short_conv, gated_delta, ssd, kimi_delta };

struct MixerFacts {
  std::string_view name;
  bool recurrent = false;  // has a state of fixed size
  bool heads = false;  // the state has a matrix per head; otherwise it is only the convolution's
};
inline constexpr auto kMixers = enum_table<MixerKind, MixerFacts>({
    {.name = "attention"},
    {.name = "short_conv", .recurrent = true},
    {.name = "gated_delta", .recurrent = true, .heads = true},
    {.name = "ssd", .recurrent = true, .heads = true},
    {.name = "kimi_delta", .recurrent = true, .heads = true},
});
constexpr auto enum_names(MixerKind) { return row_names(kMixers); }
constexpr bool is_recurrent(MixerKind kind) { return at(kMixers, kind).recurrent; }

// Sizes of mixers other than attention.
struct RecurrentConfig {
  int64_t taps = 0;       // of the convolution, as stored
  int64_t channels = 0;   // of the convolution
  bool bias = false;      // of the convolution
  bool map_bias = false;  // short_conv, ssd: of the input and output maps
  // gated_delta: each key head serves value_heads / key_heads value heads; kimi_delta: one. ssd: a
  // key head is a group with its B and C of key_dim numbers each, and a value head is a head.
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  // kimi_delta: lower bound of a token's log decays; absent: unbounded.
  std::optional<double> least_log_decay;
  // Number of tokens that the convolution reads, the current token included. At least 2, because a
  // cache needs at least one row; with one tap, the previous token has weight 0.
  int64_t tokens() const { return std::max<int64_t>(taps, 2); }
  // Number of earlier tokens whose convolution inputs a step needs.
  int64_t history() const { return tokens() - 1; }
  // The state of a layer, empty for short_conv.
  Dims state() const {
    if (key_heads == 0) return {};
    return {key_heads, value_heads / key_heads, value_dim, key_dim};
  }
  bool operator==(const RecurrentConfig&) const = default;
};

// Contents of the roles q and v. gate_in_q: per head, q has the rows of the queries, then the rows
// of a gate; the output is multiplied by sigmoid(gate). keys_are_values: there is no v; the
// projected keys before their norm are also the values.
enum class Projections : uint8_t { apart, gate_in_q, keys_are_values };
constexpr auto enum_names(Projections) {
  return name_table<Projections>({"apart", "gate_in_q", "keys_are_values"});
}

// A gate with a matrix (role attn_gate): attention's output is multiplied by a function of a linear
// map of the layer's input, with one factor per channel or per head.
enum class GateFn : uint8_t { sigmoid, softplus };
constexpr auto enum_names(GateFn) { return name_table<GateFn>({"sigmoid", "softplus"}); }

struct OutputGate {
  GateFn function = GateFn::sigmoid;
  bool per_head = false;
  bool operator==(const OutputGate&) const = default;
};

// Operations on the projections before attention, and on its output.
struct AttentionScaling {
  std::optional<double> clip_qkv;  // q, k and v are clamped to ±clip_qkv after the projection
  double value_scale = 1;          // multiplies the values after their projection
  std::optional<OutputGate> gate;
  bool operator==(const AttentionScaling&) const = default;
};

struct AttentionConfig {
  // Sizes as in the cache (for latent attention: models/shards/latent_attention.h).
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t value_dim = 0;  // of a head's values
  std::optional<LatentConfig> latent;
  std::optional<ConvolvedConfig> convolved;
  double scale = 0;                       // of the scores
  bool qkv_bias = false, o_bias = false;  // latent: of the maps to the latents and of o
  Projections projections = Projections::apart;
  AttentionScaling scaling;
  bool sinks = false;  // one more score per head, whose softmax probability is dropped
  QkNormWidth qk_norm = QkNormWidth::none;
  RopeConfig rope;
  std::optional<QueryTemperature> temperature;
  // Convolved attention: channels kept per token, which are queries, keys and delayed values.
  int64_t history_channels() const { return heads * head_dim + kv_heads * head_dim * 3 / 2; }
  bool operator==(const AttentionConfig&) const = default;
};

}  // namespace moec
