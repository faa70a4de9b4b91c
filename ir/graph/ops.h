// The ops: plain structs with typed attributes, stored in one variant. Operands and results belong
// to the Op record (ir/graph/shard.h); each struct's comment gives their order. Semantics and
// numbered constraints are in ir/OPS.md. `each_field` lists the attributes for printer, parser and
// hashing.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "ir/base/at.h"
#include "ir/base/enum_table.h"
#include "ir/graph/encoding.h"
#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

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
constexpr auto enum_names(Activation) {
  return name_table<Activation>({"silu", "clamped_swiglu", "gelu_tanh", "relu2"});
}

// An activation with its parameters. clamped_swiglu has `limit`, the bound of gate and up, and
// `alpha`, the factor inside its sigmoid; both are 0 for other activations.
struct Gating {
  Activation activation = Activation::silu;
  double limit = 0, alpha = 0;

  bool has_gate() const { return activation != Activation::relu2; }
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
constexpr auto enum_names(QkNorm) {
  return name_table<QkNorm>({"none", "per_head", "per_head_rotated", "per_head_values"});
}
constexpr bool norms_before_rotation(QkNorm norm) {
  return norm == QkNorm::per_head || norm == QkNorm::per_head_values;
}

// half: pairs (i, i + r/2). interleaved: pairs (2i, 2i + 1). none: no rotation.
enum class RopeStyle : uint8_t { none, half, interleaved };
constexpr auto enum_names(RopeStyle) {
  return name_table<RopeStyle>({"none", "half", "interleaved"});
}

// The source of earlier tokens' keys.
//   none    no cache: only the keys of the T new tokens are used
//   append  keys are a read-only cache of S rows, then the T new rows
//   blend   the new rows are written into the S rows by a one-hot write mask, keys are all S rows
enum class CacheForm : uint8_t { none, append, blend };
constexpr auto enum_names(CacheForm) { return name_table<CacheForm>({"none", "append", "blend"}); }

// The predicates below are the only place that interprets these enums. They switch without a
// default, so that a new enumerator does not compile until each predicate handles it.

// True if attention reads keys and values of earlier tokens.
constexpr bool has_cache(CacheForm form) {
  switch (form) {
    case CacheForm::append:
    case CacheForm::blend:
      return true;
    case CacheForm::none:
      return false;
  }
  return false;
}
// True if the shard itself writes the new rows into the cache; otherwise the runtime stores them.
constexpr bool updates_cache(CacheForm form) {
  switch (form) {
    case CacheForm::blend:
      return true;
    case CacheForm::none:
    case CacheForm::append:
      return false;
  }
  return false;
}

// The function from logits to scores. softmax, sigmoid: over all logits. softmax_selected,
// sigmoid_selected: over the k chosen logits only; experts are chosen by their logits. sparsemixer:
// two picks, each weighted by a softmax over the logits near it (ir/OPS.md).
enum class Score : uint8_t { softmax, sigmoid, softmax_selected, sigmoid_selected, sparsemixer };
constexpr auto enum_names(Score) {
  return name_table<Score>(
      {"softmax", "sigmoid", "softmax_selected", "sigmoid_selected", "sparsemixer"});
}

// True if scores are computed over all logits; otherwise over the logits of the chosen experts
// only.
constexpr bool scores_all_logits(Score score) {
  switch (score) {
    case Score::softmax:
    case Score::sigmoid:
      return true;
    case Score::softmax_selected:
    case Score::sigmoid_selected:
    case Score::sparsemixer:
      return false;
  }
  return false;
}
// True if each score is the sigmoid of one logit.
constexpr bool is_sigmoid(Score score) {
  switch (score) {
    case Score::sigmoid:
    case Score::sigmoid_selected:
      return true;
    case Score::softmax:
    case Score::softmax_selected:
    case Score::sparsemixer:
      return false;
  }
  return false;
}
// True if the scores are one softmax, and therefore sum to 1.
constexpr bool is_softmax(Score score) {
  switch (score) {
    case Score::softmax:
    case Score::softmax_selected:
      return true;
    case Score::sigmoid:
    case Score::sigmoid_selected:
    case Score::sparsemixer:
      return false;
  }
  return false;
}
// True if the scores of the chosen experts sum to 1 without a divisor.
constexpr bool normalises_chosen(Score score) {
  return is_softmax(score) && !scores_all_logits(score);
}
// True if exactly two experts are picked, one after the other, each weighted by a separate softmax.
constexpr bool picks_two(Score score) {
  switch (score) {
    case Score::sparsemixer:
      return true;
    case Score::softmax:
    case Score::sigmoid:
    case Score::softmax_selected:
    case Score::sigmoid_selected:
      return false;
  }
  return false;
}

// The divisor of the chosen scores: none, their sum, sum + eps, or max(sum, eps).
enum class Renorm : uint8_t { none, sum, sum_plus_eps, max_eps };
constexpr auto enum_names(Renorm) {
  return name_table<Renorm>({"none", "sum", "sum_plus_eps", "max_eps"});
}

enum class GroupScore : uint8_t { max, top2_sum };
constexpr auto enum_names(GroupScore) { return name_table<GroupScore>({"max", "top2_sum"}); }

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

// ---- Composites --------------------------------------------------------------------------------

#define MOEC_NO_FIELDS           \
  template <class Self, class F> \
  static void each_field(Self&, F&&) {}

// Grouped-query attention between the projections. ir/graph/composite_operands.h names the
// operands.
//   operands: q [T, heads*head_dim], k [T, kv_heads*head_dim], v [T, kv_heads*v_dim] as token
//             tensors; v_dim may be any;
//             rope_cos, rope_sin [T, rope_dims/2] unless rope is none;
//             mask [1, 1, T, S'] added to the scores, S' the number of keys;
//             with a cache in P pages [P, 1, T, S/P];
//             q_norm, k_norm unless qk_norm is none: [head_dim], or [heads, 1] and [kv_heads, 1],
//             one number for all dims of a head;
//             k_cache [1, kv_heads, S, head_dim], v_cache [1, kv_heads, S, v_dim] unless cache is
//             none; with blend also in P pages [P, kv_heads, S/P, …], row s in page s / (S/P), for
//             targets that do not support an axis of S;
//             write_mask [P, 1, S/P, T] if cache is blend;
//             optional sinks [heads].
//   results:  out [T, heads*v_dim]; unless cache is none also k and v: the new rows
//             [1, kv_heads, T, …] (append) or the whole new cache (blend).
struct Attention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  double scale = 1;  // multiplies the scores; usually head_dim^-1/2
  QkNorm qk_norm = QkNorm::none;
  double eps = 0;  // for the norms of q, k and v
  RopeStyle rope = RopeStyle::half;
  int64_t rope_dims = 0;  // rotated leading dims of each head
  CacheForm cache = CacheForm::none;

  bool operator==(const Attention&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("heads", self.heads);
    f("kv_heads", self.kv_heads);
    f("head_dim", self.head_dim);
    f("scale", self.scale);
    f("qk_norm", self.qk_norm);
    f("eps", self.eps);
    f("rope", self.rope);
    f("rope_dims", self.rope_dims);
    f("cache", self.cache);
  }
};

// down · act(gate · x, up · x), times sigmoid(shared_gate · x) if that operand is present.
//   operands: x, gate [f, d], up [f, d], down [d, f]; if they have biases: gate_bias [f], up_bias
//             [f], down_bias [d], added to the products; optional shared_gate [1, d]. gate
//             and gate_bias are absent if the activation has no gate.
struct GatedMlp {
  Gating gating;

  // Position of the first bias among the operands, if the op has biases.
  size_t biases_at() const { return 1 + gating.matrices(); }
  bool has_biases(size_t operands) const { return operands >= biases_at() + gating.matrices(); }
  // Position of the shared gate. The gate is present if this position is less than `operands`, the
  // number of operands.
  size_t shared_gate_at(size_t operands) const {
    return has_biases(operands) ? biases_at() + gating.matrices() : biases_at();
  }

  bool operator==(const GatedMlp&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    Gating::each_field(self.gating, f);
  }
};

// x / sqrt(mean over channels of x² + eps) ∘ w.   operands: x, w [C].
struct RmsNorm {
  double eps = 0;

  bool operator==(const RmsNorm&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("eps", self.eps);
  }
};

// Maps logits to routing weights, which are 0 for every expert that is not chosen. Experts are
// chosen by score + choice_bias; the lowest index wins ties. The weight is the score without the
// bias, renormalised, times scale. With groups > 1, only experts of the groups_kept best groups can
// be chosen.
//   operands: logits (token tensor of E channels), optional choice_bias [E], optional low half of
//             choice_bias [E], which is added to it.
struct Router {
  Score score = Score::softmax;
  int64_t top_k = 0;
  Renorm renorm = Renorm::none;
  double eps = 0;  // for renorm; sparsemixer: relative distance within which a logit is near
  double scale = 1;
  int64_t groups = 1;
  int64_t groups_kept = 1;
  GroupScore group_score = GroupScore::max;

  bool operator==(const Router&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("score", self.score);
    f("top_k", self.top_k);
    f("renorm", self.renorm);
    f("eps", self.eps);
    f("scale", self.scale);
    f("groups", self.groups);
    f("groups_kept", self.groups_kept);
    f("group_score", self.group_score);
  }
};

// Σ_e routing[first_expert + e] · (down_e · act(gate_e · x, up_e · x)), e < experts; with weight_on
// input Σ_e down_e · act(gate_e · x_e, up_e · x_e), x_e = routing[first_expert + e] · x.
//   operands: x, routing (token tensor of all E channels);
//             gate, up, down of each expert;
//             if the experts have biases: gate_bias [f], up_bias [f], down_bias [d] of each, added
//             to the products; not with weight_on input. Gates and gate biases are
//             absent if the activation has no gate.
struct SoftMoe {
  int64_t experts = 0;
  int64_t first_expert = 0;
  Gating gating;
  RoutedWeight weight_on = RoutedWeight::output;

  // Positions of the first weight and the first bias of an expert (counted from first_expert) among
  // the operands.
  size_t weights_at(int64_t expert) const {
    return 2 + gating.matrices() * static_cast<size_t>(expert);
  }
  size_t biases_at(int64_t expert) const { return weights_at(experts + expert); }
  bool has_biases(size_t operands) const { return operands > biases_at(0); }

  bool operator==(const SoftMoe&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("experts", self.experts);
    f("first_expert", self.first_expert);
    Gating::each_field(self.gating, f);
    f("weight_on", self.weight_on);
  }
};

// W · x (+ b) over the channels of a token tensor.   operands: x, W [out, in], optional b [out].
struct Linear {
  MOEC_NO_FIELDS
  bool operator==(const Linear&) const = default;
};

// ---- General ops -------------------------------------------------------------------------------

// A checkpoint weight as a view, and its storage encoding.   operands: none.
struct Weight {
  WeightView view;
  Encoding encoding = PlainEncoding{};

  bool operator==(const Weight&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("view", self.view);
    f("encoding", self.encoding);
  }
};

// Small literal data.   operands: none. `values` contains one value (a splat) or one per element.
struct Constant {
  Type type;
  std::vector<double> values;

  bool operator==(const Constant&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("type", self.type);
    f("values", self.values);
  }
};

// Convolution over tokens, stride 1, no padding.
//   operands: x [1, C, T, 1], w [N, C/groups, K, 1], optional b [N].   result: [1, N, T-K+1, 1].
struct Conv {
  int64_t groups = 1;

  bool operator==(const Conv&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("groups", self.groups);
  }
};

// a [..., M, K] · b [..., K, N]; leading sizes are equal or 1; ranks are equal.
struct MatMul {
  MOEC_NO_FIELDS
  bool operator==(const MatMul&) const = default;
};

struct Unary {
  UnaryFn fn = UnaryFn::neg;
  MOEC_NO_FIELDS
  bool operator==(const Unary&) const = default;
};

// Operands have equal rank (sizes equal or 1) or one is a scalar.
struct Binary {
  BinaryFn fn = BinaryFn::add;
  MOEC_NO_FIELDS
  bool operator==(const Binary&) const = default;
};

// As Binary; the result is bool.
struct Compare {
  CompareFn fn = CompareFn::greater;
  MOEC_NO_FIELDS
  bool operator==(const Compare&) const = default;
};

// operands: condition (bool), a, b; broadcast as Binary. The branch that is not selected has no
// effect, even if its value is NaN or infinite.
struct Select {
  MOEC_NO_FIELDS
  bool operator==(const Select&) const = default;
};

struct Cast {
  DType dtype = DType::f32;

  bool operator==(const Cast&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("dtype", self.dtype);
  }
};

// The reduced axis remains, with size 1.
struct Reduce {
  ReduceFn fn = ReduceFn::sum;
  int64_t axis = 0;

  bool operator==(const Reduce&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("axis", self.axis);
  }
};

struct Softmax {
  int64_t axis = 0;

  bool operator==(const Softmax&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("axis", self.axis);
  }
};

// The k largest elements along an axis, in descending order; equal elements by ascending index.
//   results: values, indices (i64).
struct TopK {
  int64_t k = 0;
  int64_t axis = 0;

  bool operator==(const TopK&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("k", self.k);
    f("axis", self.axis);
  }
};

struct Slice {
  int64_t axis = 0;
  int64_t begin = 0;
  int64_t size = 0;

  bool operator==(const Slice&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("axis", self.axis);
    f("begin", self.begin);
    f("size", self.size);
  }
};

struct Concat {
  int64_t axis = 0;

  bool operator==(const Concat&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("axis", self.axis);
  }
};

// The same elements in row-major order with new sizes. `layout` is the layout of the result.
struct Reshape {
  Dims dims;
  Layout layout = Layout::plain;

  bool operator==(const Reshape&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("dims", self.dims);
    f("layout", self.layout);
  }
};

// Result axis i is operand axis perm[i]. `layout` is the layout of the result.
struct Transpose {
  std::vector<int64_t> perm;
  Layout layout = Layout::plain;

  bool operator==(const Transpose&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("perm", self.perm);
    f("layout", self.layout);
  }
};

// Returns the value of a declared state at the start of the shard.   operands: none.
struct StateRead {
  std::string state;

  bool operator==(const StateRead&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("state", self.state);
  }
};

// Sets the value of a declared state after the shard.   operands: value.   results: none.
struct StateWrite {
  std::string state;

  bool operator==(const StateWrite&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("state", self.state);
  }
};

#undef MOEC_NO_FIELDS

// ---- The variant, from ops.def -----------------------------------------------------------------

enum class OpKind : uint8_t {
#define MOEC_OP(Struct, name, last_form) Struct,
#include "ir/graph/ops.def"
};

namespace internal {
template <class Unused, class... Ops>
using VariantOf = std::variant<Ops...>;
}  // namespace internal

using OpData = internal::VariantOf<void
#define MOEC_OP(Struct, name, last_form) , Struct
#include "ir/graph/ops.def"
                                   >;

// Ops that a visitor of OpData handles alike, listed by name:
//   void operator()(const OneOf<Slice, Concat> auto& op);
// A visitor that lists every op stops compiling when an op is added to ops.def, until it handles
// the new op.
template <class OpT, class... Listed>
concept OneOf = (std::same_as<OpT, Listed> || ...);

inline constexpr size_t kOpKinds = std::variant_size_v<OpData>;

inline OpKind kind_of(const OpData& data) { return static_cast<OpKind>(data.index()); }

// The kind's name in ops.def: "conv", "unary".
std::string_view op_kind_name(OpKind kind);
// The op's name in text: "conv", "exp", "reduce_sum".
std::string_view mnemonic(const OpData& data);
// Returns the op with this name in text, with default attributes; empty for unknown names.
std::optional<OpData> parse_mnemonic(std::string_view name);
Form last_legal_form(OpKind kind);

// A hash of the op's mnemonic and attributes, equal in every run and on every machine.
uint64_t hash_attributes(const OpData& data);

}  // namespace moec
