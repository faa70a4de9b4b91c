// The configuration of a model, resolved to numbers from its family descriptor and config.json. It
// contains exactly the facts that the shard builders need. Frontends create it; models/ builds
// shards from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/at.h"
#include "ir/base/enum_table.h"
#include "ir/graph/block_type.h"
#include "ir/graph/ops.h"
#include "ir/model/mixer_config.h"

namespace moec {

// Order of gate and up in a fused tensor: all rows of gate first, or alternating rows.
enum class GateUpOrder : uint8_t { gate_first, interleaved };
constexpr auto enum_names(GateUpOrder) {
  return name_table<GateUpOrder>({"gate_first", "interleaved"});
}

// The linear map from tokens to a router's logits.
struct RouterMap {
  bool bias = false;
  double softcap = 0;  // c: the logits z become c · tanh(z / c); 0: they do not
  // The router's input is the normed residual stream times a vector times hidden^-1/2, and the
  // routing weights are multiplied by a factor per expert.
  bool normed = false;
  bool operator==(const RouterMap&) const = default;
};

struct MoeConfig {
  int64_t experts = 0, expert_ff = 0;
  int64_t latent = 0;  // width of experts' inputs and outputs, see expert_width(); 0: hidden
  Router routing;      // score, top_k, renorm, scale, groups
  RouterMap router_map;
  int64_t router_hidden =
      0;  // width of the router's MLP (models/shards/router_views.h); 0: a linear map
  int64_t null_slots = 0;    // slots that can be chosen like experts and add nothing
  bool choice_bias = false;  // a tensor added to the scores for selection only
  bool expert_biases = false;
  RoutedWeight weight_on = RoutedWeight::output;
  GateUpOrder gate_up_order = GateUpOrder::gate_first;  // if one tensor contains all experts
  int64_t shared_ff = 0;         // width of the always-on shared expert; 0: none
  bool shared_gated = false;     // the shared expert is multiplied by sigmoid(g · x)
  bool shared_averaged = false;  // halves the sum of routed and shared experts
  bool parts_normed = false;     // routed and shared experts each have a norm before and after
  int64_t slots() const { return experts + null_slots; }  // candidates per token
  bool operator==(const MoeConfig&) const = default;
};

// Parts of a layer: a token mixer, a feed-forward part, or both. Each part has its norm and is
// added to the residual stream.
enum class LayerParts : uint8_t { both, mixer, feed_forward };
constexpr auto enum_names(LayerParts) {
  return name_table<LayerParts>({"both", "mixer", "feed_forward"});
}

struct LayerConfig {
  LayerParts parts = LayerParts::both;
  bool moe = false;  // the feed-forward part has experts
  MixerKind mixer = MixerKind::attention;
  int64_t window = 0;   // maximum keys per query, its own key included; 0: unlimited
  int64_t chunk = 0;    // positions per chunk; a query sees keys of its chunk only; 0: no chunks
  bool rotated = true;  // the model's rotation, if any, applies in this layer
  int64_t ahead = 0;    // number of later keys that a query sees
  bool takes_router_state = false;  // the router's MLP uses the previous router's state
  int64_t attention = 0;            // kind of attention: index for attention_of()
  bool mixes() const { return parts != LayerParts::feed_forward; }
  bool feeds() const { return parts != LayerParts::mixer; }
  bool operator==(const LayerConfig&) const = default;
};

// Tensor name templates by role, with {i} for the layer and {e} for the expert:
//   embed, final_norm, lm_head; attn_norm, ffn_norm; attn_post_norm, ffn_post_norm (post_norms),
//   ffn_routed_norm, ffn_routed_post_norm, ffn_shared_post_norm (parts_normed: ffn_norm then
//   belongs to the shared expert), layer_scale ([1]); router_scale ([d]) and
//   router_expert_scale ([E]) (RouterMap::normed); final_norm_bias, attn_norm_bias,
//   ffn_norm_bias, lm_head_bias; q, k, v, or their rows in qkv, o, q_bias, k_bias, v_bias or
//   qkv_bias, o_bias, q_norm, k_norm, attn_gate, sinks;
//   q_a, q_a_bias, q_a_norm, q_b, kv_a, kv_a_bias, kv_a_norm, kv_b (latent attention);
//   v_current, v_delayed, v_current_bias, v_delayed_bias, channel_conv, channel_conv_bias,
//   head_conv, head_conv_bias (convolved attention), k_temperature; mixer_in, mixer_conv, mixer_out
//   and their biases (short_conv), next to mixer_decay, mixer_decay_bias, mixer_skip and mixer_norm
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
//   router_choice_bias_row ([1, E]) or router_choice_bias_rows ([2, E], of which the first row is
//   used);
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

  // The name for a role, which must exist: see has().
  std::string operator()(std::string_view role, int64_t layer = -1, int64_t expert = -1) const;
  bool has(std::string_view role) const { return by_role.find(role) != by_role.end(); }
};

// rms: x / sqrt(mean x² + eps) ∘ w. layer: rms of (x − mean x), plus a bias. rms_plus_one: rms with
// 1 + w instead of w, also in the norms of queries and keys. layer_unbiased: layer without a bias.
enum class NormKind : uint8_t { rms, layer, rms_plus_one, layer_unbiased };

struct NormFacts {
  std::string_view name;
  bool centred = false;   // subtracts the mean
  bool bias = false;      // adds a bias
  bool plus_one = false;  // multiplies by 1 + w
};
inline constexpr auto kNorms = enum_table<NormKind, NormFacts>({
    {.name = "rms"},
    {.name = "layer", .centred = true, .bias = true},
    {.name = "rms_plus_one", .plus_one = true},
    {.name = "layer_unbiased", .centred = true},
});
constexpr auto enum_names(NormKind) { return row_names(kNorms); }
constexpr const NormFacts& facts_of(NormKind kind) { return at(kNorms, kind); }

// Sum of the output y of attention or feed-forward with the residual stream r. plain: r +
// residual_scale · y. affine: both are first scaled and shifted by vectors
// (models/shards/affine_residual.h).
enum class ResidualKind : uint8_t { plain, affine };
constexpr auto enum_names(ResidualKind) { return name_table<ResidualKind>({"plain", "affine"}); }

// Storage of the matrices of linear maps, as stated in the checkpoint's config. The types of the
// individual tensors determine which tensors it applies to.
//   plain       f32, f16 or bf16
//   fp8_blocks  f8_e4m3, with one factor per block
//   mxfp4       two e2m1 numbers per byte, and one power of two per 32 numbers
//   nvfp4       two e2m1 numbers per byte, one f8_e4m3 factor per 16 numbers, one f32 factor per
//               matrix
//   int_groups  integers packed in i32 along the inputs, and one factor per group of a row
//   gptq        unsigned integers of the transposed matrix, packed in i32 along the inputs, with
//               one factor and one packed zero per group; gptq stores zero − 1, gptq_v2 the zero
//   awq         4-bit unsigned integers of the transposed matrix, packed in i32 along the outputs,
//               with one factor and one packed zero per group
//   mlx         unsigned integers packed in i32, with one factor and one addend per group of a row
//   nf4, fp4    4-bit indices of a table of 16 numbers, with one factor per block of consecutive
//               elements of the matrix, whose blocks may cross rows (bitsandbytes)
//   int8_rows   8-bit integers with one factor per row (bitsandbytes)
//   gguf_blocks blocks of a GGUF file, with a type per tensor (ir/graph/block_type.h)
// models/tensors/stored_view.h has names, shapes and sources.
enum class WeightCoding : uint8_t {
  plain,
  fp8_blocks,
  mxfp4,
  nvfp4,
  int_groups,
  gptq,
  gptq_v2,
  awq,
  mlx,
  nf4,
  fp4,
  int8_rows,
  gguf_blocks
};
constexpr auto enum_names(WeightCoding) {
  return name_table<WeightCoding>({"plain", "fp8_blocks", "mxfp4", "nvfp4", "int_groups", "gptq",
                                   "gptq_v2", "awq", "mlx", "nf4", "fp4", "int8_rows",
                                   "gguf_blocks"});
}

struct StoredWeights {
  WeightCoding coding = WeightCoding::plain;
  // Rows and columns that share a factor; 0: all of the matrix. Empty for plain, mxfp4, nvfp4 and
  // gguf_blocks. nf4, fp4: {1, n}, n consecutive elements.
  Dims block;
  // int_groups, gptq, awq, mlx: bits and zeros of the integers. gguf_blocks: codes of the type with
  // the most bytes per element, or codes of about the same size if the values of that type are not
  // evenly spaced.
  IntegerCodes codes;
  // int_groups, gptq: a tensor of each matrix has the group of each column.
  bool indexed = false;
  // nf4, fp4: the factors are stored as 8-bit indices of a second table.
  bool nested = false;
  // Layers after ModelConfig::layers in the checkpoint, which --layers leaves out
  // (models/plan/make_plan.h).
  int64_t left_out_layers = 0;
  bool operator==(const StoredWeights&) const = default;
};

// Meaning of the head's scores per token: the next token, or the token's label.
enum class Task : uint8_t { text_generation, token_classification };
constexpr auto enum_names(Task) {
  return name_table<Task>({"text_generation", "token_classification"});
}

struct NormConfig {
  NormKind kind = NormKind::rms;
  double eps = 0;
  bool operator==(const NormConfig&) const = default;
};

// Parts of a layer whose outputs have a norm: none, attention and feed-forward, or only the
// feed-forward of MoE layers.
enum class PostNorms : uint8_t { none, all, moe };
constexpr auto enum_names(PostNorms) { return name_table<PostNorms>({"none", "all", "moe"}); }

// The residual stream and the family's constant factors.
struct StreamConfig {
  ResidualKind residual = ResidualKind::plain;
  double embedding_scale = 1;  // of the embedding rows
  double residual_scale = 1;   // of the outputs of attention and MLP
  bool pre_norms = true;       // norms apply to the inputs of attention and feed-forward
  PostNorms post_norms = PostNorms::none;
  bool layer_scale = false;  // a factor multiplies the whole stream after each layer
  // The feed-forward part reads the input of the layer, as the token mixer does, instead of the
  // stream after the mixer.
  bool parallel = false;
  bool operator==(const StreamConfig&) const = default;
};

// All MLPs, with or without a gate: dense layers, experts and the shared expert.
struct MlpConfig {
  Gating gating;
  int64_t ff = 0;     // intermediate width of dense layers; 0: there are none
  bool bias = false;  // in dense layers, the shared expert, and the maps of experts' latents
  bool operator==(const MlpConfig&) const = default;
};

struct HeadConfig {
  Task task = Task::text_generation;
  std::vector<std::string> labels;  // by id; with token_classification
  bool tied = false;                // the head is the embedding
  bool bias = false;
  double divisor = 1;  // of the logits
  double softcap = 0;  // of the logits: softcap · tanh(z / softcap); 0: none
  bool operator==(const HeadConfig&) const = default;
};

struct ModelConfig {
  std::string family;  // model_type
  int64_t hidden = 0, vocab = 0, max_positions = 0;
  NormConfig norm;  // before attention, feed-forward and head
  StreamConfig stream;
  MlpConfig mlp;
  HeadConfig head;
  AttentionConfig attention;  // kind 0, used by every layer unless there are more kinds
  std::vector<AttentionConfig> more_attention;  // kinds 1, 2, …
  std::optional<RecurrentConfig> recurrent;     // if a layer has another mixer than attention
  MoeConfig moe;                                // experts = 0: no MoE layers
  std::vector<LayerConfig> layers;
  StoredWeights stored;
  TensorNames names;

  // Number of the head's scores per token.
  int64_t logits() const {
    return head.task == Task::text_generation ? vocab : std::ssize(head.labels);
  }
  const AttentionConfig& attention_of(const LayerConfig& layer) const {
    if (layer.attention == 0) return attention;
    return at(more_attention, layer.attention - 1);
  }
  std::vector<AttentionConfig> kinds_of_attention() const;
  // True if the layer has attention with a rotation.
  bool rotates(const LayerConfig& layer) const;
  // The distinct rotations in layer order; an export has one table per rotation. If no layer
  // rotates: the rotation of the model's attention.
  std::vector<RopeConfig> rotations() const;
  // Index in rotations() of the rotation of `layer`, which must rotate.
  int64_t rotation_of(const LayerConfig& layer) const;
  // The channels that a routed expert reads and writes.
  int64_t expert_width() const { return moe.latent > 0 ? moe.latent : hidden; }
  // True if a norm applies to the complete feed-forward output of MoE layers before the output is
  // added to the residual stream.
  bool norms_feed_forward() const {
    return stream.post_norms != PostNorms::none || moe.parts_normed;
  }
  // True if keys and values of earlier tokens are cached. False if tokens also attend to later
  // tokens, because the model then processes a text as a whole.
  bool keeps_cache() const;
  // State of earlier tokens that a step needs in addition to keys and values: a history of token
  // rows (0, 0: none) and a recurrent state (empty: none).
  struct Memory {
    int64_t history_tokens = 0, history_channels = 0;
    Dims state;
  };
  Memory memory_of(const LayerConfig& layer) const;
};

}  // namespace moec
