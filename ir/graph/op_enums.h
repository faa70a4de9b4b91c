// Forms of a shard and the enums among the attributes of ops, with their text names and the
// predicates that interpret them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/base/enum_table.h"

namespace moec {

// The form of a shard determines which ops it may contain. Each pass declares the form that it
// requires and the form that it returns, so the order of passes can be checked: model → lowered →
// static → placed.
//   model    as emitted by a shard builder, with composites
//   lowered  without composites; projections are still `linear`
//   static   only conv, matmul, elementwise, reduce, softmax, top-k, weights and shape ops remain
//   placed   static, and every op has been accepted by the target's rules

enum class Form : uint8_t { model, lowered, static_ops, placed };

constexpr auto enum_names(Form) {
  return name_table<Form>({"model", "lowered", "static", "placed"});
}
constexpr std::string_view form_name(Form form) { return enum_name(form); }
constexpr std::optional<Form> parse_form(std::string_view name) { return parse_enum<Form>(name); }

// ---- Attribute enums ---------------------------------------------------------------------------
// Each enum has text names, enum_names(E): see ir/base/enum_table.h.

// How the gate and up projections are combined; ir/OPS.md has the formulas. relu2 acts on the up
// projection alone; an MLP with relu2 has no gate.
enum class Activation : uint8_t { silu, clamped_swiglu, gelu_tanh, relu2 };

struct ActivationFacts {
  std::string_view name;
  bool gated = false;         // the MLP has a gate
  bool clamped = false;       // has a limit and an alpha
  bool linear_in_up = false;  // a factor of up is a factor of the product
};
inline constexpr auto kActivations = enum_table<Activation, ActivationFacts>({
    {.name = "silu", .gated = true, .linear_in_up = true},
    {.name = "clamped_swiglu", .gated = true, .clamped = true},
    {.name = "gelu_tanh", .gated = true, .linear_in_up = true},
    {.name = "relu2"},
});
constexpr auto enum_names(Activation) { return row_names(kActivations); }

// An activation with its parameters. clamped_swiglu has `limit`, the bound of gate and up, and
// `alpha`, the factor inside its sigmoid; both are 0 for other activations.
struct Gating {
  Activation activation = Activation::silu;
  double limit = 0, alpha = 0;

  bool has_gate() const { return at(kActivations, activation).gated; }
  bool is_clamped() const { return at(kActivations, activation).clamped; }
  bool is_linear_in_up() const { return at(kActivations, activation).linear_in_up; }
  // Number of an MLP's matrices: gate, up and down, or up and down.
  size_t matrices() const { return has_gate() ? 3 : 2; }

  bool operator==(const Gating&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("activation", self.activation);
    f("limit", self.limit);
    f("alpha", self.alpha);
  }
};

// Normalization of each head of q and k: none, before the rotation, or after it. per_head_values:
// as per_head, plus v divided by its rms per head, without weights.
enum class QkNorm : uint8_t { none, per_head, per_head_rotated, per_head_values };

struct QkNormFacts {
  std::string_view name;
  bool before = false, after = false;  // the rotation
  bool of_values = false;
};
inline constexpr auto kQkNorms = enum_table<QkNorm, QkNormFacts>({
    {.name = "none"},
    {.name = "per_head", .before = true},
    {.name = "per_head_rotated", .after = true},
    {.name = "per_head_values", .before = true, .of_values = true},
});
constexpr auto enum_names(QkNorm) { return row_names(kQkNorms); }
constexpr const QkNormFacts& facts_of(QkNorm norm) { return at(kQkNorms, norm); }

// half: pairs (i, i + r/2). interleaved: pairs (2i, 2i + 1). none: no rotation.
enum class RopeStyle : uint8_t { none, half, interleaved };
constexpr auto enum_names(RopeStyle) {
  return name_table<RopeStyle>({"none", "half", "interleaved"});
}
// True if the elements of a pair are half of the rotated dims apart.
constexpr bool pairs_halves(RopeStyle style) {
  switch (style) {
    case RopeStyle::half:
      return true;
    case RopeStyle::interleaved:
    case RopeStyle::none:
      return false;
  }
  return false;
}

// The source of earlier tokens' keys.
//   none    no cache: only the keys of the T new tokens are used
//   append  keys are a read-only cache of S rows, then the T new rows
//   blend   the new rows are written into the S rows by a one-hot write mask, keys are all S rows
enum class CacheForm : uint8_t { none, append, blend };

// The tables of facts below are the only place that interprets their enums. A new enumerator does
// not compile until it has a row.
struct CacheFacts {
  std::string_view name;
  bool reads = false;    // attention reads keys and values of earlier tokens
  bool updates = false;  // the shard writes the new rows; otherwise the runtime stores them
};
inline constexpr auto kCacheForms = enum_table<CacheForm, CacheFacts>({
    {.name = "none"},
    {.name = "append", .reads = true},
    {.name = "blend", .reads = true, .updates = true},
});
constexpr auto enum_names(CacheForm) { return row_names(kCacheForms); }
constexpr bool has_cache(CacheForm form) { return at(kCacheForms, form).reads; }
constexpr bool updates_cache(CacheForm form) { return at(kCacheForms, form).updates; }

// The function from logits to scores. softmax, sigmoid: over all logits. softmax_selected,
// sigmoid_selected: over the k chosen logits only; experts are chosen by their logits. sparsemixer:
// two picks, each weighted by a softmax over the logits near it (ir/OPS.md).
enum class Score : uint8_t { softmax, sigmoid, softmax_selected, sigmoid_selected, sparsemixer };

struct ScoreFacts {
  std::string_view name;
  bool all_logits = false;  // computed over all logits, otherwise over those of the chosen experts
  bool sigmoid = false;     // each score is the sigmoid of one logit
  bool softmax = false;     // the scores are one softmax, and therefore sum to 1
  bool two_picks = false;   // two experts, picked in turn, each weighted by a separate softmax
};
inline constexpr auto kScores = enum_table<Score, ScoreFacts>({
    {.name = "softmax", .all_logits = true, .softmax = true},
    {.name = "sigmoid", .all_logits = true, .sigmoid = true},
    {.name = "softmax_selected", .softmax = true},
    {.name = "sigmoid_selected", .sigmoid = true},
    {.name = "sparsemixer", .two_picks = true},
});
constexpr auto enum_names(Score) { return row_names(kScores); }
constexpr bool scores_all_logits(Score score) { return at(kScores, score).all_logits; }
constexpr bool is_sigmoid(Score score) { return at(kScores, score).sigmoid; }
constexpr bool is_softmax(Score score) { return at(kScores, score).softmax; }
constexpr bool picks_two(Score score) { return at(kScores, score).two_picks; }
// True if the scores of the chosen experts sum to 1 without a divisor.
constexpr bool normalises_chosen(Score score) {
  return is_softmax(score) && !scores_all_logits(score);
}

// The divisor of the chosen scores: none, their sum, sum + eps, or max(sum, eps).
enum class Renorm : uint8_t { none, sum, sum_plus_eps, max_eps };
constexpr auto enum_names(Renorm) {
  return name_table<Renorm>({"none", "sum", "sum_plus_eps", "max_eps"});
}

enum class GroupScore : uint8_t { max, top2_sum };
constexpr auto enum_names(GroupScore) { return name_table<GroupScore>({"max", "top2_sum"}); }
// The number of best experts whose scores a group's score adds.
constexpr int64_t experts_of_group_score(GroupScore kind) {
  return at(enum_table<GroupScore, int64_t>({1, 2}), kind);
}

// The side of an expert that its routing weight multiplies.
enum class RoutedWeight : uint8_t { output, input };
constexpr auto enum_names(RoutedWeight) { return name_table<RoutedWeight>({"output", "input"}); }

enum class UnaryFn : uint8_t { neg, abs, exp, log, sqrt, reciprocal, sigmoid, tanh, erf };
constexpr auto enum_names(UnaryFn) {
  return name_table<UnaryFn>(
      {"neg", "abs", "exp", "log", "sqrt", "reciprocal", "sigmoid", "tanh", "erf"});
}

enum class BinaryFn : uint8_t { add, sub, mul, div, max, min };
constexpr auto enum_names(BinaryFn) {
  return name_table<BinaryFn>({"add", "sub", "mul", "div", "max", "min"});
}

enum class CompareFn : uint8_t { greater, less, equal };
constexpr auto enum_names(CompareFn) { return name_table<CompareFn>({"greater", "less", "equal"}); }

enum class ReduceFn : uint8_t { sum, mean, max };
constexpr auto enum_names(ReduceFn) {
  return name_table<ReduceFn>({"reduce_sum", "reduce_mean", "reduce_max"});
}

}  // namespace moec
