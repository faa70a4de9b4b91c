#include <cmath>

#include "ir/graph/composite_operands.h"
#include "ir/graph/infer_op.h"

namespace moec::inference {
// Exceeds every count in any model, and keeps products of counts within 64 bits.
constexpr int64_t kMaxCount = int64_t{1} << 20;

static bool is_count(int64_t value) { return value >= 1 && value <= kMaxCount; }

static bool projection(Check& check, std::string_view code, size_t weight, int64_t out,
                       int64_t in) {
  return check.has_dims(code, weight, {out, in});
}

static bool head_norm(Check& check, size_t weight, int64_t head_dim, int64_t heads) {
  const bool by_head = check.operands[weight].rank() == 2;
  // A norm has a weight per channel of a head, or a single weight per head.
  return check.has_dims("attention.c9", weight, by_head ? Dims{heads, 1} : Dims{head_dim});
}

static bool attention_attributes(Check& check, const Attention& op) {
  bool good = check.require(
      is_count(op.heads) && is_count(op.kv_heads) && is_count(op.head_dim) &&
          op.heads % op.kv_heads == 0,
      "attention.c2",
      "heads {}, kv_heads {} and head_dim {} must be in [1, {}] and kv_heads must divide heads",
      op.heads, op.kv_heads, op.head_dim, kMaxCount);
  good &= check.require(
      op.rope == RopeStyle::none
          ? op.rope_dims == 0
          : op.rope_dims > 0 && op.rope_dims % 2 == 0 && op.rope_dims <= op.head_dim,
      "attention.c3", "rope_dims {} must be even and at most head_dim {} (0 when rope is none)",
      op.rope_dims, op.head_dim);
  good &=
      check.require(std::isfinite(op.scale) && std::isfinite(op.eps) && op.eps >= 0, "attention.c4",
                    "scale {} and eps {} must be finite, eps not negative", op.scale, op.eps);
  return good;
}

using AttentionPositions = AttentionOperands<size_t>;

// Checks q, k and v. Later checks use their sizes.
static bool attention_tokens(Check& check, const Attention& op, const AttentionPositions& at) {
  // token_operand() ensures a token layout, which channels_of() requires below.
  for (size_t i : {at.q, at.k, at.v})
    if (!check.token_operand("attention.c6", i)) return false;
  bool good = true;
  for (size_t i : {at.q, at.k, at.v}) good &= check.same_token_shape("attention.c6", at.q, i);
  for (size_t i : {at.q, at.k}) {
    const int64_t width = (i == at.q ? op.heads : op.kv_heads) * op.head_dim;
    good &= check.require(channels_of(check.operands[i]) == width, "attention.c7",
                          "operand {} must have {} channels, got {}", i, width,
                          shown(check.operands[i]));
  }
  // Heads of v can differ in size from heads of k, so only the number of heads is checked.
  const int64_t v_channels = channels_of(check.operands[at.v]);
  good &=
      check.require(v_channels % op.kv_heads == 0, "attention.c7",
                    "{} channels of operand {} are not {} heads", v_channels, at.v, op.kv_heads);
  return good;
}

// Checks the rotation tables and the norm weights.
static bool attention_tables(Check& check, const Attention& op, const AttentionPositions& at) {
  const int64_t tokens = tokens_of(check.operands[at.q]);
  bool good = true;
  if (op.rope != RopeStyle::none)
    for (size_t i : {at.rope_cos, at.rope_sin})
      good &= check.has_dims("attention.c8", i, {tokens, op.rope_dims / 2});
  if (op.qk_norm != QkNorm::none) {
    good &= head_norm(check, at.q_norm, op.head_dim, op.heads);
    good &= head_norm(check, at.k_norm, op.head_dim, op.kv_heads);
  }
  return good;
}

// The sizes of the cache, taken from the operand k_cache.
struct CacheSizes {
  int64_t pages = 1, rows = 0;  // rows per page
};

static CacheSizes cache_sizes(const Check& check, const Attention& op,
                              const AttentionPositions& at) {
  if (!has_cache(op.cache)) return {};
  const Dims& dims = check.operands[at.k_cache].dims;
  // Only caches that attention updates (updates_cache()) are divided into pages.
  return {updates_cache(op.cache) ? dims[0] : 1, dims[2]};
}

// Checks the caches, the masks and the sinks. The sizes of the masks follow from those of the
// cache.
static bool attention_cache(Check& check, const Attention& op, const AttentionPositions& at) {
  const int64_t tokens = tokens_of(check.operands[at.q]);
  // The rank is checked first, because cache_sizes() reads single axes.
  if (has_cache(op.cache) &&
      !check.require(check.operands[at.k_cache].rank() == 4, "attention.c10",
                     "a cache has rank 4, got {}", shown(check.operands[at.k_cache])))
    return false;
  const auto [pages, rows] = cache_sizes(check, op, at);
  bool good = true;
  if (has_cache(op.cache)) {
    const int64_t v_dim = channels_of(check.operands[at.v]) / op.kv_heads;
    good &= check.has_dims("attention.c10", at.k_cache, {pages, op.kv_heads, rows, op.head_dim});
    good &= check.has_dims("attention.c10", at.v_cache, {pages, op.kv_heads, rows, v_dim});
  }
  if (updates_cache(op.cache))
    good &= check.has_dims("attention.c11", at.write_mask, {pages, 1, rows, tokens});
  // Attention appends the keys of the new tokens to a cache that it does not update.
  const int64_t keys = updates_cache(op.cache) ? rows : rows + tokens;
  good &= check.has_dims("attention.c12", at.mask, {pages, 1, tokens, keys});
  if (check.operands.size() > at.sinks)
    good &= check.has_dims("attention.c13", at.sinks, {op.heads});
  return good;
}

Inferred infer_op(const Attention& op, Check& check) {
  if (!attention_attributes(check, op)) return check.failed();
  const AttentionPositions at = attention_positions(op);
  if (!check.count("attention.c1", at.sinks, at.sinks + 1) ||
      !check.float_operands("attention.c5") || !attention_tokens(check, op, at) ||
      !attention_tables(check, op, at) || !attention_cache(check, op, at))
    return check.failed();
  const Type& q = check.operands[at.q];
  const int64_t v_dim = channels_of(check.operands[at.v]) / op.kv_heads;
  check.out.results.push_back(with_channels(q, op.heads * v_dim));
  if (has_cache(op.cache)) {
    const auto [pages, cached] = cache_sizes(check, op, at);
    // With CacheForm::append, attention returns only the new rows, which the runtime stores.
    const int64_t rows = updates_cache(op.cache) ? cached : tokens_of(q);
    for (int64_t width : {op.head_dim, v_dim})
      check.out.results.push_back({q.dtype, {pages, op.kv_heads, rows, width}});
  }
  return std::move(check.out);
}

static bool sound_gating(Check& check, std::string_view constraint, const Gating& gating) {
  if (!gating.is_clamped())
    return check.require(gating.limit == 0 && gating.alpha == 0, constraint,
                         "{} has neither limit nor alpha", enum_name(gating.activation));
  return check.require(
      std::isfinite(gating.limit) && gating.limit > 0 && std::isfinite(gating.alpha), constraint,
      "limit {} and alpha {} must be finite, limit above 0", gating.limit, gating.alpha);
}

// x and the weights are required; one bias per weight and a shared gate are optional.
static bool mlp_operand_count(Check& check, const Gating& gating) {
  const size_t count = check.operands.size(), plain = 1 + gating.matrices();
  const size_t biased = plain + gating.matrices();
  return check.require(
      count == plain || count == plain + 1 || count == biased || count == biased + 1,
      "gated_mlp.c1", "got {} operands, expected {} or {}, or {} or {} with biases", count, plain,
      plain + 1, biased, biased + 1);
}

// Checks the matrices at position `at` and after it: those that map `width` to `inner` channels,
// then the one that maps back.
static bool mlp_matrices(Check& check, std::string_view constraint, size_t at, const Gating& gating,
                         int64_t inner, int64_t width) {
  bool good = true;
  const size_t last = at + gating.matrices() - 1;
  for (size_t i = at; i < last; ++i) good &= projection(check, constraint, i, inner, width);
  good &= projection(check, constraint, last, width, inner);
  return good;
}

// Checks the biases at position `at` and after it, one per matrix of mlp_matrices().
static bool mlp_biases(Check& check, std::string_view constraint, size_t at, const Gating& gating,
                       int64_t inner, int64_t width) {
  bool good = true;
  const size_t last = at + gating.matrices() - 1;
  for (size_t i = at; i <= last; ++i)
    good &= check.has_dims(constraint, i, {i == last ? width : inner});
  return good;
}

Inferred infer_op(const GatedMlp& op, Check& check) {
  if (!mlp_operand_count(check, op.gating) || !check.float_operands("gated_mlp.c2") ||
      !check.token_operand("gated_mlp.c3", 0))
    return check.failed();
  const Type& x = check.operands[0];
  const int64_t width = channels_of(x);
  const Type& gate = check.operands[1];
  bool good = check.require(gate.rank() == 2 && gate.dims[1] == width, "gated_mlp.c4",
                            "gate must be [f, {}], got {}", width, shown(gate));
  // The inner width gate.dims[0] is needed below to check the other matrices.
  if (!good) return check.failed();
  good &= mlp_matrices(check, "gated_mlp.c4", 1, op.gating, gate.dims[0], width);
  const size_t count = check.operands.size(), shared_gate = op.shared_gate_at(count);
  if (count > shared_gate) good &= projection(check, "gated_mlp.c5", shared_gate, 1, width);
  if (op.has_biases(count))
    good &= mlp_biases(check, "gated_mlp.c6", op.biases_at(), op.gating, gate.dims[0], width);
  good &= sound_gating(check, "gated_mlp.c7", op.gating);
  return good ? check.result(x) : check.failed();
}

Inferred infer_op(const RmsNorm& op, Check& check) {
  if (!check.count("rms_norm.c1", 2) || !check.float_operands("rms_norm.c2") ||
      !check.token_operand("rms_norm.c3", 0))
    return check.failed();
  const Type& x = check.operands[0];
  bool good = check.has_dims("rms_norm.c4", 1, {channels_of(x)});
  good &= check.require(std::isfinite(op.eps) && op.eps >= 0, "rms_norm.c5",
                        "eps {} must be finite and not negative", op.eps);
  return good ? check.result(x) : check.failed();
}

static bool router_groups(Check& check, const Router& op, int64_t experts) {
  if (!check.require(op.groups >= 1 && experts % op.groups == 0, "router.c6",
                     "{} groups must divide {} experts", op.groups, experts))
    return false;
  const int64_t size = experts / op.groups;
  bool good = check.require(op.groups_kept >= 1 && op.groups_kept <= op.groups, "router.c7",
                            "groups_kept {} must be in [1, {}]", op.groups_kept, op.groups);
  good &= check.require(op.top_k <= op.groups_kept * size, "router.c8",
                        "top_k {} exceeds the {} experts of the kept groups", op.top_k,
                        op.groups_kept * size);
  good &= check.require(op.groups == 1 || size >= experts_of_group_score(op.group_score),
                        "router.c9", "{} needs at least {} experts per group",
                        enum_name(op.group_score), experts_of_group_score(op.group_score));
  return good;
}

Inferred infer_op(const Router& op, Check& check) {
  if (!check.count("router.c1", 1, 3) || !check.float_operands("router.c2") ||
      !check.token_operand("router.c3", 0))
    return check.failed();
  const Type& logits = check.operands[0];
  const int64_t experts = channels_of(logits);
  bool good = check.require(op.top_k >= 1 && op.top_k <= experts, "router.c4",
                            "top_k {} must be in [1, {}]", op.top_k, experts);
  for (size_t i = 1; i < check.operands.size(); ++i)
    good &= check.has_dims("router.c5", i, {experts});
  good &= router_groups(check, op, experts);
  good &=
      check.require(std::isfinite(op.eps) && op.eps >= 0 && std::isfinite(op.scale), "router.c10",
                    "eps {} and scale {} must be finite, eps not negative", op.eps, op.scale);
  good &= check.require(
      !normalises_chosen(op.score) || (op.renorm == Renorm::none && op.groups == 1), "router.c11",
      "softmax_selected weights already sum to 1: renorm must be none, groups 1");
  good &= check.require(!picks_two(op.score) || (op.top_k == 2 && op.renorm == Renorm::none &&
                                                 op.groups == 1 && check.operands.size() == 1),
                        "router.c12",
                        "sparsemixer picks 2 of all experts by their logits: top_k must be 2, "
                        "renorm none, groups 1, without a choice bias");
  return good ? check.result(logits) : check.failed();
}

// Checks the weights and, if present, the biases of each expert.
static bool expert_operands(Check& check, const SoftMoe& op, int64_t inner, int64_t width) {
  bool good = true;
  for (int64_t e = 0; e < op.experts; ++e) {
    good &= mlp_matrices(check, "soft_moe.c6", op.weights_at(e), op.gating, inner, width);
    if (op.has_biases(check.operands.size()))
      good &= mlp_biases(check, "soft_moe.c7", op.biases_at(e), op.gating, inner, width);
  }
  return good;
}

Inferred infer_op(const SoftMoe& op, Check& check) {
  // Bounds the counts before weights_at() and biases_at() compute positions from them.
  if (!check.require(is_count(op.experts) && op.first_expert >= 0 && op.first_expert <= kMaxCount,
                     "soft_moe.c1", "experts {} must be in [1, {}] and first_expert {} in [0, {}]",
                     op.experts, kMaxCount, op.first_expert, kMaxCount) ||
      !check.count("soft_moe.c2",
                   op.biases_at(op.has_biases(check.operands.size()) ? op.experts : 0)) ||
      !check.float_operands("soft_moe.c3") || !check.token_operand("soft_moe.c4", 0) ||
      !check.token_operand("soft_moe.c4", 1))
    return check.failed();
  const Type& x = check.operands[0];
  const Type& routing = check.operands[1];
  bool good = check.same_token_shape("soft_moe.c4", 0, 1);
  good &= check.require(op.first_expert + op.experts <= channels_of(routing), "soft_moe.c5",
                        "experts [{}, {}) exceed the {} routing channels", op.first_expert,
                        op.first_expert + op.experts, channels_of(routing));
  // The first matrix determines the inner width of all experts.
  const Type& first_gate = check.operands[2];
  if (!check.require(first_gate.rank() == 2, "soft_moe.c6", "gate must be [f, d], got {}",
                     shown(first_gate)))
    return check.failed();
  const int64_t inner = first_gate.dims[0], width = channels_of(x);
  good &= expert_operands(check, op, inner, width);
  good &= check.require(
      op.weight_on == RoutedWeight::output || !op.has_biases(check.operands.size()), "soft_moe.c8",
      "weight_on input requires experts without biases, which unchosen experts would add");
  good &= sound_gating(check, "soft_moe.c9", op.gating);
  return good ? check.result(x) : check.failed();
}

// Checks the matrices and, if present, the biases of all experts.
static bool stacked_experts(Check& check, int64_t experts, int64_t width) {
  const Type& gate_up = check.operands[2];
  if (!check.require(gate_up.rank() == 3 && gate_up.dims[0] == experts &&
                         gate_up.dims[1] % 2 == 0 && gate_up.dims[2] == width,
                     "moe.c4", "gate_up must be [{}, 2f, {}], got {}", experts, width,
                     shown(gate_up)))
    return false;
  const int64_t rows = gate_up.dims[1];
  bool good = check.has_dims("moe.c5", 3, {experts, width, rows / 2});
  if (check.operands.size() == 4) return good;
  good &= check.has_dims("moe.c6", 4, {experts, rows});
  good &= check.has_dims("moe.c6", 5, {experts, width});
  return good;
}

Inferred infer_op(const Moe& op, Check& check) {
  const size_t count = check.operands.size();
  if (!check.require(count == 4 || count == 6, "moe.c1", "requires 4 or 6 operands, got {}",
                     count) ||
      !check.float_operands("moe.c2"))
    return check.failed();
  const Type& x = check.operands[0];
  const Type& routing = check.operands[1];
  if (!check.require(x.layout == Layout::rows && routing.layout == Layout::rows &&
                         tokens_of(x) == tokens_of(routing),
                     "moe.c3", "x and routing must be rows of the same tokens, got {} and {}",
                     shown(x), shown(routing)))
    return check.failed();
  const int64_t experts = channels_of(routing);
  bool good = stacked_experts(check, experts, channels_of(x));
  good &= check.require(op.top_k >= 1 && op.top_k <= experts, "moe.c7",
                        "top_k {} must be in [1, {}]", op.top_k, experts);
  const Activation activation = op.gating.activation;
  good &= check.require(activation == Activation::silu || activation == Activation::clamped_swiglu,
                        "moe.c8", "{} is not supported, only silu and clamped_swiglu",
                        enum_name(activation));
  good &= sound_gating(check, "moe.c8", op.gating);
  return good ? check.result(x) : check.failed();
}

Inferred infer_op(const Linear&, Check& check) {
  if (!check.count("linear.c1", 2, 3) || !check.float_operands("linear.c2") ||
      !check.token_operand("linear.c3", 0))
    return check.failed();
  const Type& x = check.operands[0];
  const Type& w = check.operands[1];
  if (!check.require(w.rank() == 2 && w.dims[1] == channels_of(x), "linear.c4",
                     "weight must be [out, {}], got {}", channels_of(x), shown(w)))
    return check.failed();
  if (check.operands.size() == 3 && !check.has_dims("linear.c5", 2, {w.dims[0]}))
    return check.failed();
  return check.result(with_channels(x, w.dims[0]));
}

}  // namespace moec::inference
