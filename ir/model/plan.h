// The plan describes the whole model: its shards, the contents of each shard, and the schedule. It
// is always in memory. A runtime can execute the schedule without knowledge of the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_sets.h"
#include "ir/experts/top_k_variants.h"
#include "ir/graph/port_names.h"
#include "ir/graph/scalar.h"
#include "ir/graph/shard.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "ir/model/weight_policy.h"

namespace moec {

// Cache contents of latent attention per token: the latent that all heads share, or the keys and
// values of each head.
enum class MlaForm : uint8_t { latent, expanded };
constexpr auto enum_names(MlaForm) { return name_table<MlaForm>({"latent", "expanded"}); }

// Number of shards over which the intermediate width of an MLP is split.
struct WidthSlices {
  int64_t expert = 1;  // with experts_per_shard 1: of each expert
  int64_t shared = 0;  // with host_routing: of the shared expert; 0: in the first group
  int64_t mlp = 1;     // of a dense layer
  bool operator==(const WidthSlices&) const = default;
};

struct ExpertChoices {
  ExpertSets mask;           // the experts that tokens can choose
  bool drop_masked = false;  // shards have only the experts of `mask`
  ExpertPartition parts;     // with host_routing: sets, which experts_per_shard splits further
  // Top-k variants, the default first. Empty: the checkpoint's top-k only.
  std::vector<TopKVariant> top_k;
  // True if a shard of the layer has the expert.
  bool holds(int64_t layer, int64_t expert) const {
    return !drop_masked || mask.has(layer, expert);
  }
  bool operator==(const ExpertChoices&) const = default;
};

// The user's choices that affect the inputs and outputs of shards.
struct BuildOptions {
  DType dtype = DType::f32;           // of activations and weights in the shards: f32 or f16
  Layout layout = Layout::channels;   // channels: conv form; rows: matmul form
  std::vector<int64_t> tokens = {1};  // token widths, ascending; shards are built for each
  int64_t context = 0;                // S: rows of the KV cache, maximum positions of a text
  // Form of the cache; ignored by models without a cache.
  CacheForm cache = CacheForm::append;  // append: explicit cache inputs; blend: device state
  int64_t cache_pages = 1;        // with blend: pages of the cache (Attention in ir/graph/ops.h)
  MlaForm mla = MlaForm::latent;  // for models with latent attention
  bool host_routing = false;      // routers are separate shards, see ShardKind::router
  int64_t experts_per_shard = 0;  // with host_routing: experts per group; 0: all in one group
  WidthSlices slices;             // of MLPs that are split along their width
  int64_t head_slices = 1;        // vocabulary slices of the head
  // With f16: compute norm, logits and choice of a router, and the recurrence of a mixer, in f32.
  bool wide_router = false;
  int64_t layers_per_shard = 0;  // maximum whole layers per shard; 0: the parts are separate shards
  WeightPolicy weights = {};     // storage forms of weights
  ExpertChoices experts = {};
  bool operator==(const BuildOptions&) const = default;
};

enum class ShardKind : uint8_t { attention, moe, mlp, router, shared, experts, lm_head, layers };

// Contents of a kind of shard. Only the predicates below interpret the kinds.
struct ShardContents {
  std::string_view name, folder;  // of an export; three kinds share a folder
  bool attention = false, router = false, experts = false, shared = false, mlp = false,
       head = false;
  bool several_layers = false;
};
inline constexpr auto kShardKinds = enum_table<ShardKind, ShardContents>({
    {.name = "attention", .folder = "attn", .attention = true},
    {.name = "moe", .folder = "moe", .router = true, .experts = true, .shared = true},
    {.name = "mlp", .folder = "mlp", .mlp = true},
    {.name = "router", .folder = "router", .router = true},
    {.name = "shared", .folder = "moe", .shared = true},
    {.name = "experts", .folder = "moe", .experts = true},
    {.name = "lm_head", .folder = "lm_head", .head = true},
    {"layers", "layers", true, true, true, true, true, false, true},
});
constexpr auto enum_names(ShardKind) { return row_names(kShardKinds); }
constexpr const ShardContents& contents(ShardKind kind) { return at(kShardKinds, kind); }

// The shard has the routers of its MoE layers.
constexpr bool routes(ShardKind kind) { return contents(kind).router; }
// The shard has the attention, or another mixer, of its layers.
constexpr bool attends(ShardKind kind) { return contents(kind).attention; }
constexpr bool holds_whole_layers(ShardKind kind) { return contents(kind).several_layers; }
constexpr bool is_head(ShardKind kind) { return contents(kind).head; }
constexpr bool is_attention(ShardKind kind) { return attends(kind) && !holds_whole_layers(kind); }
constexpr bool is_dense(ShardKind kind) { return contents(kind).mlp && !holds_whole_layers(kind); }
// is_whole_moe: one MoE layer with its router. The predicates after is_whole_moe: a part of such a
// layer.
constexpr bool is_whole_moe(ShardKind kind) {
  return routes(kind) && contents(kind).experts && !holds_whole_layers(kind);
}
constexpr bool is_router(ShardKind kind) { return routes(kind) && !contents(kind).experts; }
constexpr bool is_expert_group(ShardKind kind) { return contents(kind).experts && !routes(kind); }
constexpr bool is_shared_expert(ShardKind kind) {
  return contents(kind).shared && !contents(kind).experts;
}

struct ShardDecl {
  std::string name;  // "L03.attn", "L03.moe", "L03.moe.g2", "L03.mlp.s1", "lm_head.0", "L03.layers"
  std::string stem;  // path in the output folder without extension: "attn/L03", "moe/L03.g2"
  ShardKind kind = ShardKind::attention;
  int64_t layer = -1;  // -1 for a shard outside of layers
  int64_t layers = 1;  // layers from `layer`; 0 without a layer, above 1 only with kind layers
  int64_t first_expert = 0, experts = 0;    // per MoE layer; kinds moe, experts and layers
  std::vector<int64_t> expert_ids;          // kinds moe, experts: all experts, if not one run
  int64_t slice = 0, slices = 1;            // of the intermediate width; kinds mlp, shared, experts
  int64_t vocab_begin = 0, vocab_size = 0;  // kind lm_head
  bool operator==(const ShardDecl&) const = default;
};

// The source of a shard's input.
//   edge        an earlier step's output, or the embedding rows ("embed")
//   rope_cos, rope_sin   rows of the RoPE table at the tokens' positions, those of `rotation` in
//               ModelConfig::rotations()
//   query_scale          one factor per token, from its position (models/tensors/rope.h)
//   attn_mask   0 where query i may see a key, masked_score() elsewhere; `window`, `chunk` and
//               `ahead` as in LayerConfig
//   kv_write_mask        [s, t] = 1 where new token t is written to cache row s
//   k_cache, v_cache     the cache of `layer` before the step
//   history              projections in `layer` of the last tokens before the step: a token tensor
//                        of ModelConfig::memory_of() tokens, the newest last, zeros before the
//                        first. Never a device state: devices accept no states but the cache
//   recurrent_state      the state of `layer` before the step, zeros before the first token
//   token_mask           1 for each token, 0 for padding after them
enum class SourceKind : uint8_t {
  edge,
  rope_cos,
  rope_sin,
  attn_mask,
  kv_write_mask,
  k_cache,
  v_cache,
  query_scale,
  history,
  recurrent_state,
  token_mask
};
constexpr auto enum_names(SourceKind) {
  return name_table<SourceKind>({"edge", "rope_cos", "rope_sin", "attn_mask", "kv_write_mask",
                                 "k_cache", "v_cache", "query_scale", "history", "recurrent_state",
                                 "token_mask"});
}

// The destination of a shard's output. k_rows, v_rows: new rows of `layer`'s cache at the tokens'
// positions. logits: a slice of the logits, with columns from ShardDecl::vocab_begin. history_rows:
// tokens to append to the history of `layer`. recurrent_state: the state of `layer` after the step.
enum class SinkKind : uint8_t { edge, k_rows, v_rows, logits, history_rows, recurrent_state };
constexpr auto enum_names(SinkKind) {
  return name_table<SinkKind>(
      {"edge", "k_rows", "v_rows", "logits", "history_rows", "recurrent_state"});
}

struct InputBinding {
  std::string port;
  SourceKind source = SourceKind::edge;
  std::string edge;      // with edge
  int64_t window = 0;    // with attn_mask
  int64_t layer = -1;    // with k_cache, v_cache, history and recurrent_state
  int64_t chunk = 0;     // with attn_mask
  int64_t ahead = 0;     // with attn_mask
  int64_t rotation = 0;  // with rope_cos and rope_sin
  bool operator==(const InputBinding&) const = default;
};

struct OutputBinding {
  std::string port;
  SinkKind sink = SinkKind::edge;
  std::string edge;    // with edge
  int64_t layer = -1;  // with k_rows, v_rows, history_rows and recurrent_state
  bool operator==(const OutputBinding&) const = default;
};

struct Step {
  uint32_t shard = 0;  // index into Plan::shards
  std::vector<InputBinding> inputs;
  std::vector<OutputBinding> outputs;
  // For expert groups with host routing. If all routing weights of the group are zero, the step may
  // be skipped: the value of input `skip_from` then becomes output `skip_to`. Empty: never skipped.
  std::string skip_from, skip_to;
  bool operator==(const Step&) const = default;
};

inline constexpr std::string_view kEmbedEdge = "embed";
// Value that attn_mask adds to the scores of keys that a query may not see: the lowest finite
// number. In f16, the value is -4e4, so that the sum is finite for scores above -25,504; the Neural
// Engine does not support infinities in a mask.
inline double masked_score(DType dtype) {
  return dtype == DType::f16 ? -4e4 : -largest_finite(dtype);
}

struct IgnoredWeight {
  std::string tensor, reason;
  bool operator==(const IgnoredWeight&) const = default;
};

struct Plan {
  ModelConfig model;
  WeightTable weights;
  BuildOptions build;
  std::vector<ShardDecl> shards;
  std::vector<Step> schedule;
  WeightView embedding;  // [vocab, hidden] in build.dtype
  // If set, the table's tensors have no bytes. Their values are noise, a pure function of the seed
  // and the tensor's name, used to measure sizes and times without a checkpoint.
  std::optional<uint64_t> weight_seed;
  std::vector<IgnoredWeight> ignored;
};

// Returns the MoE layers whose router or experts are in the shard, ascending.
std::vector<int64_t> moe_layers_of(const ModelConfig& model, const ShardDecl& shard);

// The facts about a shard that the plan verifier needs.
struct ShardInterface {
  struct Port {
    std::string name;
    Type type;
    bool operator==(const Port&) const = default;
  };
  std::vector<Port> inputs, outputs;
  std::vector<State> states;
  std::vector<std::string> tensors;  // checkpoint tensors that it reads, sorted
};

ShardInterface interface_of(const Shard& shard);

// Returns the findings plan.p1 … plan.p4 (ir/verify/verify.h). `interfaces[i]` is the interface of
// plan.shards[i].
Diagnostics verify_plan(const Plan& plan, const std::vector<ShardInterface>& interfaces);

}  // namespace moec
