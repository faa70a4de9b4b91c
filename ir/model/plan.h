// The plan describes the whole model and is always in memory: the shards, the contents of each, and
// the schedule by which a runtime that knows nothing of the model runs them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/experts/expert_sets.h"
#include "ir/experts/top_k_forms.h"
#include "ir/graph/port_names.h"
#include "ir/graph/scalar.h"
#include "ir/graph/shard.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "ir/model/weight_policy.h"

namespace moec {

// What latent attention caches of a token: the latent that all heads share, or the keys and values
// of each head.
enum class MlaForm : uint8_t { latent, expanded };
constexpr auto enum_names(MlaForm) { return name_table<MlaForm>({"latent", "expanded"}); }

// How many shards hold the intermediate width of an MLP.
struct WidthSlices {
  int64_t expert = 1;  // with experts_per_shard 1: of each expert
  int64_t shared = 0;  // with host_routing: of the shared expert; 0: it lies in the first group
  int64_t mlp = 1;     // of a dense layer
  bool operator==(const WidthSlices&) const = default;
};

struct ExpertChoices {
  ExpertSets mask;        // the experts that tokens can choose
  ExpertPartition parts;  // with host_routing: what experts_per_shard cuts further
  // How many experts tokens take, the default first. Empty: as many as the checkpoint says.
  std::vector<TopKForm> top_k;
  bool operator==(const ExpertChoices&) const = default;
};

// The user's choices that shape the inputs and outputs of shards.
struct BuildOptions {
  DType dtype = DType::f32;           // of activations and weights in the shards: f32 or f16
  Layout layout = Layout::channels;   // channels: conv form; rows: matmul form
  std::vector<int64_t> tokens = {1};  // static widths, ascending; each shard is built for each
  int64_t context = 0;                // S: rows of the KV cache, and positions of a text
  // Ignored by models that keep no cache.
  CacheForm cache = CacheForm::append;  // append: explicit cache inputs; blend: device state
  int64_t cache_pages = 1;        // with blend: pages of the cache, as in ir/graph/ops.h Attention
  MlaForm mla = MlaForm::latent;  // of models with latent attention
  bool host_routing = false;      // the router is a shard of its own, weights are an input
  int64_t experts_per_shard = 0;  // with host_routing: experts a group; 0: all in one
  WidthSlices slices;             // of MLPs that are cut along their width
  int64_t head_slices = 1;        // vocabulary slices of the head
  // With f16: norm, logits and choice of a router, and the recurrence of a mixer, are in f32.
  bool wide_router = false;
  int64_t layers_per_shard = 0;  // the most whole layers a shard; 0: their parts have shards
  WeightPolicy weights = {};     // which weights are stored in which form
  ExpertChoices experts = {};
  bool operator==(const BuildOptions&) const = default;
};

enum class ShardKind : uint8_t { attention, moe, mlp, router, shared, experts, lm_head, layers };
constexpr auto enum_names(ShardKind) {
  return name_table<ShardKind>(
      {"attention", "moe", "mlp", "router", "shared", "experts", "lm_head", "layers"});
}

// The folder of an export in which the shards of each kind lie, by kind. Three kinds share one.
inline constexpr auto kShardFolders =
    name_table<ShardKind>({"attn", "moe", "mlp", "router", "moe", "moe", "lm_head", "layers"});

// What a kind of shard holds. The predicates below decide for the whole tree.
struct ShardContents {
  bool attention = false, router = false, experts = false, shared = false, mlp = false,
       head = false;
  bool several_layers = false;
};

// Switches without a default, so that a new kind does not compile until it says what it holds.
constexpr ShardContents contents(ShardKind kind) {
  switch (kind) {
    case ShardKind::attention:
      return {.attention = true};
    case ShardKind::moe:
      return {.router = true, .experts = true, .shared = true};
    case ShardKind::mlp:
      return {.mlp = true};
    case ShardKind::router:
      return {.router = true};
    case ShardKind::shared:
      return {.shared = true};
    case ShardKind::experts:
      return {.experts = true};
    case ShardKind::lm_head:
      return {.head = true};
    case ShardKind::layers:
      return {true, true, true, true, true, false, true};
  }
  return {};
}

// The shard has the routers of its MoE layers.
constexpr bool routes(ShardKind kind) { return contents(kind).router; }
// The shard has the attention, or another mixer, of its layers.
constexpr bool attends(ShardKind kind) { return contents(kind).attention; }
constexpr bool holds_whole_layers(ShardKind kind) { return contents(kind).several_layers; }
constexpr bool is_head(ShardKind kind) { return contents(kind).head; }
constexpr bool is_attention(ShardKind kind) { return attends(kind) && !holds_whole_layers(kind); }
constexpr bool is_dense(ShardKind kind) { return contents(kind).mlp && !holds_whole_layers(kind); }
// One MoE layer with its router, or a part of one.
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
  int64_t layer = -1;                       // -1: none
  int64_t layers = 1;                       // from `layer` on; 0 without, above 1 with kind layers
  int64_t first_expert = 0, experts = 0;    // of each MoE layer; kinds moe, experts and layers
  std::vector<int64_t> expert_ids;          // kind experts: where they are no run, all of them
  int64_t slice = 0, slices = 1;            // of the intermediate width; kinds mlp, shared, experts
  int64_t vocab_begin = 0, vocab_size = 0;  // kind lm_head
  bool operator==(const ShardDecl&) const = default;
};

// The source of a shard's input.
//   edge        an earlier step's output, or the embedding rows ("embed")
//   rope_cos, rope_sin   rows of the RoPE table at the tokens' positions, those of `rotation` in
//               ModelConfig::rotations()
//   query_scale          a number for each token, of its position (models/tensors/rope.h)
//   attn_mask   0 where query i may see a key, masked_score() elsewhere; `window`, `chunk` and
//               `ahead` as in LayerConfig
//   kv_write_mask        [s, t] = 1 where new token t is written to cache row s
//   k_cache, v_cache     the cache of `layer` as it was before the step
//   history              what the last tokens before the step were projected to in `layer`: a token
//                        tensor of ModelConfig::memory_of() tokens, the newest last, zeros before
//                        the first; never a state, of which devices take no more than the cache
//   recurrent_state      the state of `layer` before the step, zeros before the first token
//   token_mask           1 for each token, 0 for padding behind them
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

// The destination of a shard's output: an edge, new rows to store in the cache of `layer` at the
// tokens' positions, a slice of the logits (columns from ShardDecl::vocab_begin), the tokens that
// follow those in the history of `layer`, or its state after the step.
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
  // With experts of host routing: when all routing weights of this group are zero, the step may be
  // skipped by passing input `skip_from` on as output `skip_to`. Empty: never skipped.
  std::string skip_from, skip_to;
  bool operator==(const Step&) const = default;
};

inline constexpr std::string_view kEmbedEdge = "embed";
// What attn_mask adds to the scores of keys that a query may not see: the lowest finite number. In
// f16 it is -4e4, so that the sum is finite for any score above -25,504: the Neural Engine takes no
// infinities in a mask.
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
  // With a seed, no tensor of the table has bytes: its values are noise, a pure function of seed
  // and name. For sizes and timings without a checkpoint.
  std::optional<uint64_t> weight_seed;
  std::vector<IgnoredWeight> ignored;
};

// The MoE layers of which a shard has a router or experts, ascending.
std::vector<int64_t> moe_layers_of(const ModelConfig& model, const ShardDecl& shard);

// A shard as the plan sees it.
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

// Findings plan.p1 … plan.p4 (ir/verify/verify.h). `interfaces[i]` is that of plan.shards[i].
Diagnostics verify_plan(const Plan& plan, const std::vector<ShardInterface>& interfaces);

}  // namespace moec
