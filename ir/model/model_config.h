// A model, resolved to numbers from its family descriptor and config.json: exactly what the shard
// builders need. Frontends make it; models/ builds shards from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/at.h"
#include "ir/base/enum_table.h"
#include "ir/graph/ops.h"

namespace moec {

enum class RopeScaling : uint8_t { none, linear, llama3, yarn, longrope, proportional };
constexpr auto enum_names(RopeScaling) {
  return name_table<RopeScaling>({"none", "linear", "llama3", "yarn", "longrope", "proportional"});
}

// With longrope: what divides each frequency, and what cos and sin are multiplied by.
struct RopeFactors {
  std::vector<double> of;
  double amplitude = 1;
  bool operator==(const RopeFactors&) const = default;
};

// With yarn: frequencies that turn more than `fast` times within the original positions are kept,
// those that turn less than `slow` times are divided by the factor, the others lie between.
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
  double share = 1;                         // proportional: of the pairs, the first ones, that turn
  bool operator==(const RopeConfig&) const = default;
};

// Where the q and k norms of a family act: on each head's dims, before or after the rotation, or on
// all heads' channels at once. l2: on each head's dims after the rotation, without weights, and
// only in layers that rotate. l2_tempered: before the rotation, without weights but for one number
// that each head of keys is multiplied by. per_head_values: as per_head, and the values of each
// head by their rms, without weights.
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

// Of l2_tempered: it keeps the norm of a zero vector finite, also in f16, and is lost beside
// others.
inline constexpr double kTemperedNormEps = 1e-12;

// In layers that do not rotate, the queries of position p are multiplied by
// 1 + scale · ln(1 + floor((p + 1) / step)).
struct QueryTemperature {
  double scale = 0, step = 1;
  bool operator==(const QueryTemperature&) const = default;
};

// Multi-head latent attention: the keys and values of all heads are maps of one latent vector a
// token, of kv_rank dims, beside the dims that all keys share. These are what rotates, in a model
// that does.
struct LatentConfig {
  int64_t q_rank = 0;  // of the queries' own latent; 0: they are projected at once
  int64_t kv_rank = 0;
  int64_t shared_dims = 0;  // of all keys
  int64_t key_dims = 0;     // of a head's keys, without the shared ones
  int64_t value_dims = 0;   // of a head's values
  double norm_eps = 0;      // of the latents' norms
  bool expanded = false;    // keys and values are cached head by head, and not the latent
  bool operator==(const LatentConfig&) const = default;
};

// Attention whose projections are mixed over time (models/shards/build_attention.cc): so many
// tokens, the last one included, that each convolution sees.
struct ConvolvedConfig {
  int64_t channel_taps = 0;  // of the one over each channel
  int64_t head_taps = 0;     // of the one over the channels of each head
  // Earlier tokens of which a step needs what they were projected to.
  int64_t history() const { return channel_taps + head_taps - 2; }
  bool operator==(const ConvolvedConfig&) const = default;
};

// What mixes the tokens of a layer. All but attention take them one after another, and keep a state
// of fixed size in the place of a cache (models/shards/decaying_mixer.h).
//   short_conv   a gated convolution over each channel
//   gated_delta  a convolution, then a matrix for each head that decays and is corrected by each
//                token (the gated delta rule)
//   ssd          a convolution, then a matrix for each head that decays and takes each token in
//                (the state space duality of Mamba-2)
//   kimi_delta   as gated_delta, but each channel of the keys decays by itself (Kimi Delta
//   Attention)
enum class MixerKind : uint8_t { attention, short_conv, gated_delta, ssd, kimi_delta };
constexpr auto enum_names(MixerKind) {
  return name_table<MixerKind>({"attention", "short_conv", "gated_delta", "ssd", "kimi_delta"});
}

// The sizes of the layers whose mixer is no attention.
struct RecurrentConfig {
  int64_t taps = 0;       // of the convolution, as stored
  int64_t channels = 0;   // that it goes over
  bool bias = false;      // of the convolution
  bool map_bias = false;  // short_conv, ssd: of the maps around it
  // gated_delta: each key head serves value_heads / key_heads value heads, kimi_delta: one. ssd: a
  // key head is a group with its B and C, of key_dim numbers each, and a value head is a head.
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  // kimi_delta: the bound that the log decays of a token lie above; none: they have no bound.
  std::optional<double> least_log_decay;
  // Tokens that the convolution sees, the last one included. A cache has at least one row: with one
  // tap the token before has the weight 0.
  int64_t tokens() const { return std::max<int64_t>(taps, 2); }
  // Earlier tokens of which a step needs what enters the convolution.
  int64_t history() const { return tokens() - 1; }
  // The state of a layer, empty for short_conv.
  Dims state() const {
    if (key_heads == 0) return {};
    return {key_heads, value_heads / key_heads, value_dim, key_dim};
  }
  bool operator==(const RecurrentConfig&) const = default;
};

// What the roles q and v hold. gate_in_q: q has, for each head, the rows of its queries, then those
// of a gate; the output is multiplied by sigmoid(gate). keys_are_values: there is no v; what keys
// are projected to, before their norm, is the values as well.
enum class Projections : uint8_t { apart, gate_in_q, keys_are_values };
constexpr auto enum_names(Projections) {
  return name_table<Projections>({"apart", "gate_in_q", "keys_are_values"});
}

struct AttentionConfig {
  // As the cache holds keys and values (models/shards/latent_attention.h for latent attention).
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t value_dim = 0;  // of a head's values
  std::optional<LatentConfig> latent;
  std::optional<ConvolvedConfig> convolved;
  double scale = 0;                       // of the scores
  bool qkv_bias = false, o_bias = false;  // latent: of what makes the latents, and of o
  Projections projections = Projections::apart;
  bool sinks = false;  // one more score of each head, whose share of the softmax is dropped
  QkNormWidth qk_norm = QkNormWidth::none;
  std::optional<double> clip_qkv;  // q, k and v are clamped to ±clip_qkv after the projection
  RopeConfig rope;
  std::optional<QueryTemperature> temperature;
  // With convolved attention, of what is kept of a token: its queries, keys and delayed values.
  int64_t history_channels() const { return heads * head_dim + kv_heads * head_dim * 3 / 2; }
  bool operator==(const AttentionConfig&) const = default;
};

// How one tensor holds gate and up: the rows of gate first, or a row of each in turn.
enum class GateUpOrder : uint8_t { gate_first, interleaved };
constexpr auto enum_names(GateUpOrder) {
  return name_table<GateUpOrder>({"gate_first", "interleaved"});
}

struct MoeConfig {
  int64_t experts = 0, expert_ff = 0;
  int64_t latent = 0;        // what routed experts read and write (models/shards/expert_views.h)
  Router routing;            // score, top_k, renorm, scale, groups
  bool router_bias = false;  // of the router's linear map
  int64_t router_hidden =
      0;  // width of the router's MLP (models/shards/router_views.h); 0: a linear map
  // A linear map of the residual stream by a norm of its own: its rms times a vector times
  // hidden^-1/2. The routing weights are multiplied by a number of each expert.
  bool router_normed = false;
  int64_t null_slots = 0;    // what can be chosen besides the experts, and adds nothing
  bool choice_bias = false;  // a tensor added to the scores for selection only
  bool expert_biases = false;
  RoutedWeight weight_on = RoutedWeight::output;
  GateUpOrder gate_up_order = GateUpOrder::gate_first;  // where all experts are in one tensor
  int64_t shared_ff = 0;      // width of the always-on shared expert; 0: none
  bool shared_gated = false;  // the shared expert is multiplied by sigmoid(g · x)
  bool parts_normed = false;  // routed experts and the shared one have a norm each on either side
  int64_t slots() const { return experts + null_slots; }  // what a token chooses from
  bool operator==(const MoeConfig&) const = default;
};

// What a layer has: a mixer of tokens, a feed-forward part, or both, each with its norm and its sum
// with the residual stream.
enum class LayerParts : uint8_t { both, mixer, feed_forward };
constexpr auto enum_names(LayerParts) {
  return name_table<LayerParts>({"both", "mixer", "feed_forward"});
}

struct LayerConfig {
  LayerParts parts = LayerParts::both;
  bool moe = false;  // whether the feed-forward part has experts
  MixerKind mixer = MixerKind::attention;
  int64_t window = 0;   // keys a query sees, itself included; 0: all earlier ones
  int64_t chunk = 0;    // a query sees only keys of its own run of so many positions; 0: all runs
  bool rotated = true;  // whether the rotation acts in this layer, where the model has one
  int64_t ahead = 0;    // later keys a query sees
  bool takes_router_state = false;  // the router's MLP goes on from the layer before
  int64_t attention = 0;            // which of the model's kinds of attention it has
  bool mixes() const { return parts != LayerParts::feed_forward; }
  bool feeds() const { return parts != LayerParts::mixer; }
  bool operator==(const LayerConfig&) const = default;
};

// Tensor name templates by role, with {i} for the layer and {e} for the expert:
//   embed, final_norm, lm_head; attn_norm, ffn_norm; attn_post_norm, ffn_post_norm (post_norms),
//   ffn_routed_norm, ffn_routed_post_norm, ffn_shared_post_norm (parts_normed: ffn_norm is then
//   that of the shared expert), layer_scale ([1]); router_scale ([d]) and router_expert_scale ([E])
//   (router_normed); final_norm_bias, attn_norm_bias,
//   ffn_norm_bias, lm_head_bias; q, k, v, o, q_bias, k_bias, v_bias, o_bias, q_norm, k_norm, sinks;
//   q_a, q_a_bias, q_a_norm, q_b, kv_a, kv_a_bias, kv_a_norm, kv_b (latent attention);
//   v_current, v_delayed, v_current_bias, v_delayed_bias, channel_conv, channel_conv_bias,
//   head_conv, head_conv_bias (convolved attention), k_temperature; mixer_in, mixer_conv, mixer_out
//   and their biases (short_conv), beside mixer_decay, mixer_decay_bias, mixer_skip and mixer_norm
//   (ssd); mixer_qkv and mixer_z, or mixer_qkvz, mixer_b and mixer_a, or
//   mixer_ba, mixer_conv, mixer_decay, mixer_decay_bias, mixer_norm, mixer_out (gated_delta);
//   mixer_q, mixer_k, mixer_v, mixer_conv or mixer_q_conv, mixer_k_conv and mixer_v_conv,
//   mixer_decay_map and mixer_z, each of them or its X_down and X_up, mixer_decay or
//   mixer_decay_grid ([1, 1, heads, 1]), mixer_decay_bias, mixer_b, mixer_norm, mixer_out
//   (kimi_delta);
//   embed_scale, embed_bias, and
//   X_scale, X_bias of attn_part, attn_residual, ffn_part, ffn_residual (affine residuals); router,
//   router_bias, router_down, router_down_bias, router_state_scale, router_norm, router_fc1,
//   router_fc1_bias, router_fc2, router_fc2_bias (a router's MLP), router_choice_bias,
//   router_choice_bias_row ([1, E]) or router_choice_bias_rows ([2, E], the first one counts);
//   router_in_out ([d, E]) instead of router; expert_gate, expert_up, expert_down, or
//   all experts in one tensor: experts_gate_up ([E, 2f, d]), or experts_gate and experts_up ([E, f,
//   d] each), and experts_down ([E, d, f]), or transposed: experts_gate_up_in_out ([E, d, 2f]) and
//   experts_down_in_out ([E, f, d]); experts_gate_up_bias ([E, 2f]), or experts_gate_bias and
//   experts_up_bias ([E, f] each), and experts_down_bias ([E, d]); shared_gate_proj and shared_up,
//   or shared_gate_up ([2s, d], gate first); shared_down, shared_sigmoid_gate; latent_in,
//   latent_out and their biases (d of the experts is then MoeConfig::latent); gate and up, or
//   gate_up, and down (dense layers); shared_gate_proj_bias, shared_up_bias, shared_down_bias,
//   gate_bias, up_bias, down_bias.
struct TensorNames {
  std::map<std::string, std::string, std::less<>> by_role;
  std::vector<std::string>
      ignored;  // patterns of tensors that a text decoder does not use; * matches any run

  // The name for a role; the role must exist (has() tells).
  std::string operator()(std::string_view role, int64_t layer = -1, int64_t expert = -1) const;
  bool has(std::string_view role) const { return by_role.find(role) != by_role.end(); }
};

// rms: x / sqrt(mean x² + eps) ∘ w. layer: the same of x less its mean, plus a bias. rms_plus_one:
// rms with 1 + w, also in the norms of queries and keys.
enum class NormKind : uint8_t { rms, layer, rms_plus_one };
constexpr auto enum_names(NormKind) {
  return name_table<NormKind>({"rms", "layer", "rms_plus_one"});
}

// How the output of attention or feed-forward is added to the residual stream. plain: r +
// residual_scale · y. affine: by vectors of its own (models/shards/affine_residual.h).
enum class ResidualKind : uint8_t { plain, affine };
constexpr auto enum_names(ResidualKind) { return name_table<ResidualKind>({"plain", "affine"}); }

// How a checkpoint stores the matrices of linear maps, according to its config. The types of the
// individual tensors tell which of them are stored so.
//   plain       f32, f16 or bf16
//   fp8_blocks  f8_e4m3, and in NAME_scale_inv one factor for each block of the tensor NAME
//   mxfp4       pairs of e2m1 in a byte, and one power of two for each 32 of them
//   int4_groups integers of four bits, eight in an i32, and one factor for each group in a row
enum class WeightCoding : uint8_t { plain, fp8_blocks, mxfp4, int4_groups };
constexpr auto enum_names(WeightCoding) {
  return name_table<WeightCoding>({"plain", "fp8_blocks", "mxfp4", "int4_groups"});
}

struct StoredWeights {
  WeightCoding coding = WeightCoding::plain;
  Dims block;  // of fp8_blocks and int4_groups: rows and columns with one factor
  // That follow ModelConfig::layers in the checkpoint (models/plan/first_layers.h).
  int64_t left_out_layers = 0;
  bool operator==(const StoredWeights&) const = default;
};

// What the head scores for each token: the words that may follow, or the labels of the token.
enum class Task : uint8_t { text_generation, token_classification };
constexpr auto enum_names(Task) {
  return name_table<Task>({"text_generation", "token_classification"});
}

struct NormConfig {
  NormKind kind = NormKind::rms;
  double eps = 0;
  bool operator==(const NormConfig&) const = default;
};

// The residual stream, with the constants that a family multiplies by.
struct StreamConfig {
  ResidualKind residual = ResidualKind::plain;
  double embedding_scale = 1;  // of the embedding rows, with which it begins
  double residual_scale = 1;   // of what attention and MLP add to it
  bool post_norms = false;     // what attention and feed-forward add is normed
  bool layer_scale = false;    // each layer ends with a factor on the whole stream
  bool operator==(const StreamConfig&) const = default;
};

// The MLPs, with or without a gate: dense layers, experts and the shared expert.
struct MlpConfig {
  Gating gating;
  int64_t ff = 0;     // intermediate width of dense layers; 0: there are none
  bool bias = false;  // of dense layers, the shared expert, and the maps around experts' latents
  bool operator==(const MlpConfig&) const = default;
};

struct HeadConfig {
  Task task = Task::text_generation;
  std::vector<std::string> labels;  // by id; with token_classification
  bool tied = false;                // the head is the embedding
  bool bias = false;
  double divisor = 1;  // of the head's results
  double softcap = 0;  // of the logits: softcap · tanh(z / softcap); 0: none
  bool operator==(const HeadConfig&) const = default;
};

struct ModelConfig {
  std::string family;  // model_type
  int64_t hidden = 0, vocab = 0, max_positions = 0;
  NormConfig norm;  // in front of attention, feed-forward and head
  StreamConfig stream;
  MlpConfig mlp;
  HeadConfig head;
  AttentionConfig attention;                    // kind 0, of all layers where there is no other
  std::vector<AttentionConfig> more_attention;  // kinds 1, 2, …
  std::optional<RecurrentConfig> recurrent;     // where a layer has another mixer than attention
  MoeConfig moe;                                // experts = 0: no MoE layer
  std::vector<LayerConfig> layers;
  StoredWeights stored;
  TensorNames names;

  // How many scores the head has for a token.
  int64_t logits() const {
    return head.task == Task::text_generation ? vocab : std::ssize(head.labels);
  }
  const AttentionConfig& attention_of(const LayerConfig& layer) const {
    if (layer.attention == 0) return attention;
    return at(more_attention, layer.attention - 1);
  }
  std::vector<AttentionConfig> kinds_of_attention() const;
  // The layer has attention that rotates.
  bool rotates(const LayerConfig& layer) const;
  // The different rotations of the layers, in the order of these: the tables of an export. Where no
  // layer rotates, that of the model's attention.
  std::vector<RopeConfig> rotations() const;
  // Which of them a layer has that rotates.
  int64_t rotation_of(const LayerConfig& layer) const;
  // The channels that a routed expert reads and writes.
  int64_t expert_width() const { return moe.latent > 0 ? moe.latent : hidden; }
  // Whether the feed-forward part of a layer is complete only before it is added to the residual
  // stream, because a norm lies between.
  bool norms_feed_forward() const { return stream.post_norms || moe.parts_normed; }
  // Whether keys and values of earlier tokens are kept for later ones. They are not where tokens
  // see later ones as well: a text goes through such a model as a whole.
  bool keeps_cache() const;
  // What a step needs of earlier tokens beside keys and values: so many tokens of so many channels
  // (none: 0, 0), and a state (none: empty).
  struct Memory {
    int64_t history_tokens = 0, history_channels = 0;
    Dims state;
  };
  Memory memory_of(const LayerConfig& layer) const;
};

}  // namespace moec
