// The ops: plain structs with typed attributes, stored in one variant. Operands and results belong
// to the Op record (ir/graph/shard.h); each struct's comment gives their order. Semantics and
// numbered constraints are in ir/OPS.md. `each_field` lists the attributes for printer, parser and
// hashing. This file has the general ops; composites.h has the composites.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "ir/graph/composites.h"
#include "ir/graph/encoding.h"
#include "ir/graph/op_enums.h"
#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

#define MOEC_NO_FIELDS           \
  template <class Self, class F> \
  static void each_field(Self&, F&&) {}

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

// A mixture of experts over given routing weights: Σ_e routing[e] · (down_e · act(gate_e · x, up_e
// · x)), over the experts whose routing weight is not 0. For engines with such an op, which compute
// only these experts (fuse_experts in passes/passes.h).
//   operands: x [T, d] and routing [T, E] in layout rows;
//             gate_up [E, 2f, d]: of expert e, row 2i is row i of its gate, row 2i + 1 row i of its
//             up; down [E, d, f];
//             if the experts have biases: gate_up_bias [E, 2f], interleaved likewise, down_bias
//             [E, d].
struct Moe {
  int64_t top_k = 0;  // maximum number of routing weights of a token that are not 0
  Gating gating;      // silu or clamped_swiglu

  bool operator==(const Moe&) const = default;
  template <class Self, class F>
  static void each_field(Self& self, F&& f) {
    f("top_k", self.top_k);
    Gating::each_field(self.gating, f);
  }
};

// The operands of a Moe by name. T represents an operand: a value id or a tensor.
template <class T>
struct MoeOperands {
  T x{}, routing{}, gate_up{}, down{};
  T gate_up_bias{}, down_bias{};  // T{} if the experts have no biases
};
template <class T>
MoeOperands<T> moe_operands(const std::vector<T>& list) {
  if (list.size() < 6) return {list[0], list[1], list[2], list[3], T{}, T{}};
  return {list[0], list[1], list[2], list[3], list[4], list[5]};
}

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
#define MOEC_OP(Struct, ...) Struct,
#include "ir/graph/ops.def"
};

namespace internal {
template <class Unused, class... Ops>
using VariantOf = std::variant<Ops...>;
}  // namespace internal

using OpData = internal::VariantOf<void
#define MOEC_OP(Struct, ...) , Struct
#include "ir/graph/ops.def"
                                   >;

// contraction: sums products of operands; operand 1 of conv and matmul may be a matrix of weights.
// elementwise: broadcasts its operands, and each element of the result depends on one element of
// each. along_axis: combines the elements along one axis. shape: moves elements.
enum class OpGroup : uint8_t {
  composite,
  source,
  contraction,
  elementwise,
  along_axis,
  shape,
  state
};

// pure: the results are a function of the operands and attributes. loads: they also depend on the
// payload of the checkpoint. reads, writes: the op reads or sets the state of its attribute
// `state`.
enum class Effect : uint8_t { pure, loads, reads, writes };

// sized: the attributes contain sizes that depend on the number of tokens.
enum class AttributeSizes : uint8_t { fixed, sized };

// A row of ops.def.
struct OpTraits {
  std::string_view name;  // of the kind: "conv", "unary"
  Form last_form;         // in which the op is legal
  OpGroup group;
  Effect effect;
  AttributeSizes attributes;
};

template <class OpT>
inline constexpr OpTraits op_traits = {};
#define MOEC_OP(Struct, name, last_form, group, effect, attributes)                      \
  template <>                                                                            \
  inline constexpr OpTraits op_traits<Struct> = {#name, Form::last_form, OpGroup::group, \
                                                 Effect::effect, AttributeSizes::attributes};
#include "ir/graph/ops.def"

inline constexpr size_t kOpKinds = std::variant_size_v<OpData>;

inline OpKind kind_of(const OpData& data) { return static_cast<OpKind>(data.index()); }

const OpTraits& traits_of(OpKind kind);
inline const OpTraits& traits_of(const OpData& data) { return traits_of(kind_of(data)); }

inline bool reads_state(const OpData& data) { return traits_of(data).effect == Effect::reads; }
inline bool writes_state(const OpData& data) { return traits_of(data).effect == Effect::writes; }
inline bool is_source(const OpData& data) { return traits_of(data).group == OpGroup::source; }
inline bool is_contraction(const OpData& data) {
  return traits_of(data).group == OpGroup::contraction;
}
// The state that the op reads or writes; null for other ops.
const std::string* state_of(const OpData& data);

// Ops that a visitor of OpData handles alike, listed by name or by group:
//   void operator()(const OneOf<Slice, Concat> auto& op);
//   void operator()(const InGroup<OpGroup::source, OpGroup::state> auto& op);
// Such a visitor does not compile with a new op whose group it does not handle, until it lists the
// op.
template <class OpT, class... Listed>
concept OneOf = (std::same_as<OpT, Listed> || ...);
template <class OpT, OpGroup... groups>
concept InGroup = ((op_traits<OpT>.group == groups) || ...);
template <class OpT>
concept FixedOp = (op_traits<OpT>.attributes == AttributeSizes::fixed);
template <class OpT>
concept PureOp = (op_traits<OpT>.effect == Effect::pure);

// The op's name in text: "conv", "exp", "reduce_sum".
std::string_view mnemonic(const OpData& data);
// Returns the op with this name in text, with default attributes; empty for unknown names.
std::optional<OpData> parse_mnemonic(std::string_view name);

// A hash of the op's mnemonic and attributes, equal in every run and on every machine.
uint64_t hash_attributes(const OpData& data);

}  // namespace moec
