#include "models/shards/check_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/shards/check_mixers.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

bool is_moe(const LayerConfig& layer) { return layer.moe; }
bool is_dense_layer(const LayerConfig& layer) { return layer.feeds() && !layer.moe; }
bool has_moe_layer(const ModelConfig& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), is_moe);
}

// Bounds the memory of a plan, which grows with each expert. Kimi-K2, the published model with the
// most experts, has 60 layers of 384: 23,040.
constexpr int64_t kMaxExpertsInAll = int64_t{1} << 17;

void check_expert_count(ConfigChecker& check, const ModelConfig& model) {
  const int64_t layers = std::count_if(model.layers.begin(), model.layers.end(), is_moe);
  // Divides the limit, because the product of layers and experts could overflow.
  check.require(layers == 0 || model.moe.experts <= kMaxExpertsInAll / layers, "model.experts",
                "{} layers of {} experts exceed the limit of {} in total", layers,
                model.moe.experts, kMaxExpertsInAll);
}

// Checks the norms between a layer's feed-forward parts and the residual stream.
void check_norms_of_parts(ConfigChecker& check, const ModelConfig& model) {
  if (model.norms_feed_forward())
    check.require(model.stream.residual == ResidualKind::plain, "model.residual",
                  "norms after attention and feed-forward need plain residuals");
  else
    check.require(!model.stream.layer_scale, "model.residual",
                  "a layer scale needs norms after the parts of a layer");
  check.require(!model.stream.parallel ||
                    (!model.norms_feed_forward() && model.stream.residual == ResidualKind::plain),
                "model.residual", "parallel blocks need plain residuals without norms of parts");
  check.require(
      !model.moe.shared_averaged || (!model.norms_feed_forward() && model.moe.shared_ff > 0),
      "model.experts",
      "the average of routed and shared experts needs a shared expert, and no norms of "
      "parts");
  check.require(!model.moe.parts_normed || model.moe.shared_ff > 0, "model.experts",
                "separate norms of experts need a shared expert");
  check.require(
      !model.moe.router_map.normed ||
          (model.moe.router_hidden == 0 && model.moe.null_slots == 0 && !model.moe.router_map.bias),
      "model.router", "a router with a separate norm cannot have an MLP, null slots or a bias");
}

void check_latent(ConfigChecker& check, const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  if (moe.latent == 0) return;
  check.size("the latent of the experts", moe.latent);
  check.require(moe.shared_ff > 0 || !model.mlp.bias, "model.experts",
                "the output bias of the experts' latent needs a shared expert, with which it is "
                "added");
  check.require(!moe.parts_normed && moe.weight_on == RoutedWeight::output, "model.experts",
                "experts with a latent cannot have separate norms or routing weights on their "
                "inputs");
}

void check_moe(ConfigChecker& check, const MoeConfig& moe) {
  const Router& routing = moe.routing;
  check.count("experts", moe.experts);
  check.size("expert_ff", moe.expert_ff);
  check.require(routing.top_k >= 1 && routing.top_k <= moe.experts, "model.top_k",
                "top-k is {} of {} experts, must be from 1 to {}", routing.top_k, moe.experts,
                moe.experts);
  if (!check.require(routing.groups >= 1 && moe.experts % routing.groups == 0 &&
                         routing.groups_kept >= 1 && routing.groups_kept <= routing.groups,
                     "model.groups", "{} experts cannot be chosen from {} of {} groups",
                     moe.experts, routing.groups_kept, routing.groups))
    return;
  int64_t group = moe.experts / routing.groups;
  check.require(routing.groups == 1 || routing.top_k <= group * routing.groups_kept, "model.top_k",
                "top-k is {}, but {} kept groups of {} have only {} experts", routing.top_k,
                routing.groups_kept, group, group * routing.groups_kept);
  const int64_t scored = experts_of_group_score(routing.group_score);
  check.require(routing.groups == 1 || group >= scored, "model.groups",
                "the group score {} needs groups of at least {} experts",
                enum_name(routing.group_score), scored);
  // sparsemixer chooses two experts in two separate steps.
  check.require(!picks_two(routing.score) || routing.top_k == 2, "model.top_k",
                "sparsemixer requires a top-k of 2, got {}", routing.top_k);
  check.require(routing.groups == 1 || moe.null_slots == 0, "model.groups",
                "null slots cannot be combined with {} groups of experts", routing.groups);
  check.require(moe.weight_on == RoutedWeight::output || !moe.expert_biases, "model.experts",
                "routing weights on experts' inputs require experts without biases");
  check.require(std::isfinite(routing.eps) && routing.eps >= 0, "model.number",
                "the router's eps is {}, must be finite and at least 0", routing.eps);
  check.require(std::isfinite(moe.router_map.softcap) && moe.router_map.softcap >= 0,
                "model.number",
                "the cap of the router's logits is {}, must be finite and at least 0",
                moe.router_map.softcap);
  check.require(std::isfinite(routing.scale), "model.number",
                "the routed scale is {}, must be finite", routing.scale);
}

void check_gating(ConfigChecker& check, const Gating& gating) {
  if (!gating.is_clamped()) return;
  check.positive("model.number", "the limit of clamped_swiglu", gating.limit);
  check.require(std::isfinite(gating.alpha), "model.number",
                "the alpha of clamped_swiglu is {}, must be finite", gating.alpha);
}

// Experts require a feed-forward part, and affine residuals require layers with both parts.
void check_parts(ConfigChecker& check, const ModelConfig& model) {
  for (size_t i = 0; i < model.layers.size(); ++i)
    check.require(model.layers[i].feeds() || !model.layers[i].moe, "model.layers",
                  "layer {} has experts but no feed-forward part", i);
  const auto whole = [](const LayerConfig& layer) { return layer.parts == LayerParts::both; };
  const bool all_whole = std::all_of(model.layers.begin(), model.layers.end(), whole);
  check.require(model.stream.residual == ResidualKind::plain || all_whole, "model.layers",
                "affine residuals require layers with both parts");
  check.require(!model.stream.parallel || all_whole, "model.layers",
                "parallel blocks require layers with both parts");
}

// A layer that reads a router state needs a previous layer whose router has one.
void check_router_states(ConfigChecker& check, const ModelConfig& model) {
  check.require(model.moe.router_hidden >= 0 && model.moe.null_slots >= 0, "model.size",
                "the router MLP has {} channels and {} null slots, both must be at least 0",
                model.moe.router_hidden, model.moe.null_slots);
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].takes_router_state)
      check.require(
          model.moe.router_hidden > 0 && model.layers[i].moe && i > 0 && model.layers[i - 1].moe,
          "model.router", "layer {} reads a router state that layer {} does not have", i,
          static_cast<int64_t>(i) - 1);
}

// Elements of a row that must be together in one block or word. 1: any number of elements.
int64_t whole_elements(const StoredWeights& stored) {
  constexpr int64_t kWordBits = 32;
  switch (stored.coding) {
    case WeightCoding::mxfp4:
      return kMxBlock;
    case WeightCoding::nvfp4:
      return kNvBlock;
    case WeightCoding::int_groups:
    case WeightCoding::gptq:
    case WeightCoding::gptq_v2:
    case WeightCoding::awq:
    case WeightCoding::mlx:
      // Integers of 3, 5 and 6 bits cross words, so only runs of several words are whole.
      return kWordBits / std::gcd(kWordBits, stored.codes.bits);
    case WeightCoding::plain:
    case WeightCoding::fp8_blocks:
    case WeightCoding::nf4:
    case WeightCoding::fp4:
    case WeightCoding::int8_rows:
    case WeightCoding::gguf_blocks:
      break;
  }
  return 1;
}

// Codings with blocks or words of a fixed size store experts, so the experts' sizes must be
// multiples of these.
void check_storage(ConfigChecker& check, const ModelConfig& model) {
  const int64_t block = whole_elements(model.stored);
  // Rows of gate and up have the experts' input width; rows of down have expert_ff.
  std::vector<int64_t> sizes = {model.hidden, model.moe.expert_ff};
  if (model.moe.latent > 0) sizes.push_back(model.moe.latent);
  for (const int64_t size : sizes)
    check.require(size % block == 0, "model.storage",
                  "rows have {} elements, must be a multiple of {}, the block of {}", size, block,
                  enum_name(model.stored.coding));
}

// If tokens see later tokens in one layer, the model processes a text as a whole. Tokens must then
// see later ones in all layers, because any other layer would need a cache.
void check_sight(ConfigChecker& check, const ModelConfig& model) {
  int64_t looking_ahead = 0;
  for (const LayerConfig& layer : model.layers) {
    looking_ahead += layer.ahead > 0;
    check.require(layer.ahead >= 0, "model.number",
                  "a query sees {} later keys, must be at least 0", layer.ahead);
    check.require(layer.ahead == 0 || layer.chunk == 0, "model.attention",
                  "chunked attention cannot see later keys");
  }
  const auto layers = std::ssize(model.layers);
  check.require(looking_ahead == 0 || looking_ahead == layers, "model.attention",
                "{} of {} layers see later tokens, must be none or all", looking_ahead, layers);
}

void check_task(ConfigChecker& check, const ModelConfig& model) {
  // The rows of a text generation head stand for tokens, so it has no labels.
  if (model.head.task == Task::text_generation) {
    check.require(model.head.labels.empty(), "model.labels",
                  "a text generation model has {} labels, must have none",
                  model.head.labels.size());
    return;
  }
  check.size("labels", std::ssize(model.head.labels));
  // The head has a row per label, and the embedding a row per token.
  check.require(!model.head.tied, "model.labels",
                "a head for labels cannot be tied to the embedding");
}

// Checks the largest matrices. Builders rely on at most kMaxElements elements per tensor, which the
// product of valid sizes may exceed.
void check_matrices(ConfigChecker& check, const ModelConfig& model) {
  const AttentionConfig& attention = model.attention;
  const int64_t d = model.hidden, q = attention.heads * attention.head_dim;
  check.matrix("the embedding", {model.vocab, d});
  for (const AttentionConfig& kind : model.kinds_of_attention())
    check.matrix("the query matrix", {kind.heads * kind.head_dim, d});
  // The rows are an upper bound over all kinds of mixers.
  if (model.recurrent)
    check.matrix("the mixer's input matrix",
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

void check_roles(ConfigChecker& check, const ModelConfig& model) {
  for (const std::string& role : missing_roles(model))
    check.require(false, "model.roles", "the family {} has no tensor name for the role \"{}\"",
                  model.family, role);
}

}  // namespace

Diagnostics check_model(const ModelConfig& model) {
  ConfigChecker check;
  check.size("hidden", model.hidden);
  check.size("vocab", model.vocab);
  check.size("max_positions", model.max_positions);
  check.size("layers", std::ssize(model.layers));
  check.require(std::isfinite(model.norm.eps) && model.norm.eps >= 0, "model.number",
                "the norm eps is {}, must be finite and at least 0", model.norm.eps);
  check.positive("model.number", "the embedding scale", model.stream.embedding_scale);
  check.positive("model.number", "the residual scale", model.stream.residual_scale);
  check.positive("model.number", "the divisor of the logits", model.head.divisor);
  check_gating(check, model.mlp.gating);
  // 0 means that the logits have no cap.
  check.require(std::isfinite(model.head.softcap) && model.head.softcap >= 0, "model.number",
                "the cap of the logits is {}, must be finite and at least 0", model.head.softcap);
  check_mixers(check, model);
  check_norms_of_parts(check, model);
  if (has_moe_layer(model)) {
    check_moe(check, model.moe);
    check_latent(check, model);
  }
  if (std::any_of(model.layers.begin(), model.layers.end(), is_dense_layer))
    check.require(model.mlp.ff > 0, "model.dense",
                  "the model has dense layers, but the config has no width for them");
  check.require(!model.attention.convolved || model.keeps_cache(), "model.attention",
                "convolved attention needs earlier tokens, but the model has no cache");
  check_parts(check, model);
  check_router_states(check, model);
  check_storage(check, model);
  check_sight(check, model);
  check_task(check, model);
  // check_expert_count() and check_matrices() compute with sizes, so they require valid sizes.
  if (check.good()) check_expert_count(check, model);
  if (check.good()) check_matrices(check, model);
  if (check.good()) check_roles(check, model);  // runs the builders, which need a valid model
  return check.take();
}

}  // namespace moec
