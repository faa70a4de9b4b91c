#include <algorithm>
#include <initializer_list>
#include <optional>

#include "backends/reference/axis.h"
#include "backends/reference/fused_ops.h"

namespace moec {
namespace {

class FusedFinder {
 public:
  FusedFinder(const Shard& shard, const Gates& gates, const IdMap<OpId, uint8_t>& excluded)
      : shard_(shard), gates_(gates), uses_(count_uses(shard)), taken_(excluded) {}

  // From the last op on, so that a norm has its weight if there is one.
  std::vector<FusedOp> all() {
    std::vector<FusedOp> found;
    for (size_t i = shard_.ops.size(); i-- > 0;) {
      const OpId id{static_cast<uint32_t>(i)};
      if (taken_[id]) continue;
      for (const auto find : {&FusedFinder::norm, &FusedFinder::rotation, &FusedFinder::gate,
                              &FusedFinder::guard, &FusedFinder::rank, &FusedFinder::sum}) {
        std::optional<FusedOp> fused = (this->*find)(id);
        if (!fused || !is_in_one_part(*fused)) continue;
        std::sort(fused->ops.begin(), fused->ops.end());
        for (const OpId part : fused->ops) taken_[part] = 1;
        found.push_back(std::move(*fused));
        break;
      }
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

 private:
  bool is_in_one_part(const FusedOp& fused) const {
    return std::all_of(fused.ops.begin(), fused.ops.end(), [&](OpId id) {
      return gates_.of_op[id] == gates_.of_op[fused.ops.front()];
    });
  }

  const Type& type(ValueId id) const { return shard_.type(id); }
  const std::vector<ValueId>& operands(OpId id) const { return shard_.ops[id].operands; }

  // The op if it is of this kind and in no other group; else null.
  template <class OpT>
  const OpT* free_op(OpId id) const {
    return id.valid() && !taken_[id] ? std::get_if<OpT>(&shard_.ops[id].data) : nullptr;
  }
  bool is_binary(OpId id, BinaryFn fn) const {
    const auto* binary = free_op<Binary>(id);
    return binary != nullptr && binary->fn == fn &&
           type(shard_.ops[id].results[0]).dtype == DType::f32;
  }
  bool is_unary(OpId id, UnaryFn fn) const {
    const auto* unary = free_op<Unary>(id);
    return unary != nullptr && unary->fn == fn;
  }
  bool is_compare(OpId id, CompareFn fn) const {
    const auto* compare = free_op<Compare>(id);
    return compare != nullptr && compare->fn == fn;
  }

  // The op that computes a value with this number of uses, all of them inside of the group; else
  // invalid.
  OpId maker(ValueId id, uint32_t uses = 1) const {
    return uses_[id] == uses ? shard_.values[id].producer : OpId{};
  }

  std::optional<float> number(ValueId id) const {
    const auto* constant = shard_.producer_as<Constant>(id);
    if (constant == nullptr || type(id).elements() != 1) return {};
    return static_cast<float>(constant->values.front());
  }

  // w has one factor per element of the axis.
  bool is_factor(ValueId w, ValueId x, int64_t axis) const {
    const int64_t size = type(x).dims.at(axis);
    return type(w).elements() == size && type(w).rank() == type(x).rank() &&
           type(w).dims.at(axis) == size;
  }

  std::optional<FusedOp> norm(OpId last) const {
    if (!is_binary(last, BinaryFn::mul)) return {};
    // x · w, or the product with the root itself.
    if (const OpId scaled = maker(operands(last)[0]); is_binary(scaled, BinaryFn::mul))
      if (auto fused = normalised(scaled)) {
        const ValueId w = operands(last)[1];
        if (is_factor(w, fused->operands[0], mean_axis(*fused))) {
          fused->operands.push_back(w);
          fused->ops.push_back(last);
          return fused;
        }
      }
    return normalised(last);
  }

  int64_t mean_axis(const FusedOp& norm) const {
    for (const OpId id : norm.ops)
      if (const auto* reduce = std::get_if<Reduce>(&shard_.ops[id].data)) return reduce->axis;
    return 0;
  }

  // x / sqrt(mean of x² + eps)
  std::optional<FusedOp> normalised(OpId product) const {
    const ValueId x = operands(product)[0];
    const OpId inverse = maker(operands(product)[1]);
    if (!is_unary(inverse, UnaryFn::reciprocal)) return {};
    const OpId root = maker(operands(inverse)[0]);
    if (!is_unary(root, UnaryFn::sqrt)) return {};
    const OpId sum = maker(operands(root)[0]);
    if (!is_binary(sum, BinaryFn::add)) return {};
    const OpId mean = maker(operands(sum)[0]);
    const std::optional<float> eps = number(operands(sum)[1]);
    const auto* reduce = free_op<Reduce>(mean);
    if (!eps || reduce == nullptr || reduce->fn != ReduceFn::mean) return {};
    const OpId square = maker(operands(mean)[0]);
    if (!is_binary(square, BinaryFn::mul)) return {};
    if (operands(square)[0] != x || operands(square)[1] != x) return {};
    const Lines lines(type(x).dims, reduce->axis);
    if (lines.step != 1) return {};
    return FusedOp{
        FusedKind::norm, {x}, {square, mean, sum, root, inverse, product}, *eps, lines.size};
  }

  // Half of the last axis of a value.
  struct Half {
    ValueId from;
    bool is_second = false;
    OpId op;
  };
  std::optional<Half> half(ValueId id) const {
    const OpId op = maker(id, 2);
    const auto* slice = free_op<Slice>(op);
    if (slice == nullptr) return {};
    const ValueId from = operands(op)[0];
    const Dims& dims = type(from).dims;
    const bool halves = slice->axis == dims.rank() - 1 && 2 * slice->size == dims.back() &&
                        (slice->begin == 0 || slice->begin == slice->size);
    if (!halves) return {};
    return Half{from, slice->begin != 0, op};
  }

  // A product of a half with cos or sin.
  struct Turn {
    Half half;
    ValueId by;
    OpId op;
  };
  std::optional<Turn> turn(ValueId id) const {
    const OpId op = maker(id);
    if (!is_binary(op, BinaryFn::mul)) return {};
    const std::optional<Half> of = half(operands(op)[0]);
    const ValueId by = operands(op)[1];
    if (!of || type(of->from).rank() < 2) return {};
    const Dims& dims = type(of->from).dims;
    if (type(by).elements() != dims.at(dims.rank() - 2) * dims.back() / 2) return {};
    const bool is_per_token = type(by).rank() == dims.rank() &&
                              type(by).dims.at(dims.rank() - 2) == dims.at(dims.rank() - 2) &&
                              2 * type(by).dims.back() == dims.back();
    if (!is_per_token) return {};
    return Turn{*of, by, op};
  }

  // `other` turns this half by the factor of `one`.
  static bool turns(const Turn& one, const Turn& other, const Half& half) {
    return one.by == other.by && other.half.op == half.op;
  }

  // concat(a cos - b sin, b cos + a sin)
  std::optional<FusedOp> rotation(OpId last) const {
    const auto* concat = std::get_if<Concat>(&shard_.ops[last].data);
    if (concat == nullptr || operands(last).size() != 2) return {};
    const OpId first = maker(operands(last)[0]), second = maker(operands(last)[1]);
    if (!is_binary(first, BinaryFn::sub) || !is_binary(second, BinaryFn::add)) return {};
    const std::optional<Turn> a_cos = turn(operands(first)[0]), b_sin = turn(operands(first)[1]);
    const std::optional<Turn> b_cos = turn(operands(second)[0]), a_sin = turn(operands(second)[1]);
    if (!a_cos || !b_sin || !b_cos || !a_sin) return {};
    const Half &a = a_cos->half, &b = b_sin->half;
    if (a.is_second || !b.is_second || a.from != b.from) return {};
    if (!turns(*a_cos, *b_cos, b) || !turns(*b_sin, *a_sin, a)) return {};
    if (concat->axis != type(a.from).rank() - 1) return {};
    return FusedOp{FusedKind::rotation,
                   {a.from, a_cos->by, a_sin->by},
                   {a.op, b.op, a_cos->op, b_sin->op, b_cos->op, a_sin->op, first, second, last}};
  }

  // (g · sigmoid(g)) · u
  std::optional<FusedOp> gate(OpId last) const {
    if (!is_binary(last, BinaryFn::mul)) return {};
    const OpId silu = maker(operands(last)[0]);
    if (!is_binary(silu, BinaryFn::mul)) return {};
    const ValueId g = operands(silu)[0], u = operands(last)[1];
    const OpId sigmoid = maker(operands(silu)[1]);
    if (!is_unary(sigmoid, UnaryFn::sigmoid) || operands(sigmoid)[0] != g) return {};
    if (type(g).dims != type(u).dims) return {};
    return FusedOp{FusedKind::gate, {g, u}, {sigmoid, silu, last}};
  }

  // r == 0 ? 0 : x · r
  std::optional<FusedOp> guard(OpId last) const {
    if (!std::holds_alternative<Select>(shard_.ops[last].data)) return {};
    const OpId is_zero = maker(operands(last)[0]), product = maker(operands(last)[2]);
    if (number(operands(last)[1]) != 0.0f || !is_binary(product, BinaryFn::mul)) return {};
    const ValueId x = operands(product)[0], r = operands(product)[1];
    if (type(r).elements() != 1 || type(x).dims != type(shard_.ops[last].results[0]).dims)
      return {};
    if (!is_compare(is_zero, CompareFn::equal)) return {};
    if (operands(is_zero)[0] != r || number(operands(is_zero)[1]) != 0.0f) return {};
    return FusedOp{FusedKind::guard, {x, r}, {product, is_zero, last}};
  }

  // Σ (a = b ? c : [a > b])
  std::optional<FusedOp> rank(OpId last) const {
    const auto* reduce = std::get_if<Reduce>(&shard_.ops[last].data);
    if (reduce == nullptr || reduce->fn != ReduceFn::sum) return {};
    const ValueId terms = operands(last)[0];
    const OpId select = maker(terms);
    if (free_op<Select>(select) == nullptr) return {};
    const OpId equal = maker(operands(select)[0]), larger = maker(operands(select)[2]);
    if (!is_compare(equal, CompareFn::equal) || free_op<Cast>(larger) == nullptr) return {};
    const OpId greater = maker(operands(larger)[0]);
    if (!is_compare(greater, CompareFn::greater)) return {};
    if (operands(greater) != operands(equal)) return {};
    const ValueId a = operands(equal)[0], b = operands(equal)[1], c = operands(select)[1];
    const int64_t size = type(terms).dims.at(reduce->axis);
    // A sum of up to 2^24 ones is exact in f32.
    constexpr int64_t kMostOnes = int64_t{1} << 24;
    if (!is_flag(c) || size > kMostOnes || type(terms).dtype != DType::f32) return {};
    return FusedOp{FusedKind::rank, {a, b, c}, {equal, greater, larger, select, last}, 0, size,
                   reduce->axis};
  }

  // True if all elements are known to be 0 or 1. Looks through at most `selects` nested selects:
  // choose_top() nests one, for scores of two halves.
  bool is_flag(ValueId id, int selects = 1) const {
    if (const auto* constant = shard_.producer_as<Constant>(id))
      return std::ranges::all_of(constant->values, [](double v) { return v == 0 || v == 1; });
    const OpId op = shard_.values[id].producer;
    if (!op.valid()) return false;
    if (std::holds_alternative<Cast>(shard_.ops[op].data))
      return type(operands(op)[0]).dtype == DType::boolean;
    return selects > 0 && std::holds_alternative<Select>(shard_.ops[op].data) &&
           is_flag(operands(op)[1], selects - 1) && is_flag(operands(op)[2], selects - 1);
  }

  // ((a + b) + c) + d, with at least one result of a gated part.
  std::optional<FusedOp> sum(OpId last) const {
    FusedOp sum{FusedKind::sum};
    for (OpId op = last; is_sum(op); op = maker(operands(op)[0])) {
      sum.ops.push_back(op);
      sum.operands.push_back(operands(op)[1]);
    }
    if (sum.ops.size() < 2) return {};
    sum.operands.push_back(operands(sum.ops.back())[0]);
    std::reverse(sum.operands.begin(), sum.operands.end());
    const bool has_parts = std::any_of(sum.operands.begin(), sum.operands.end(), [&](ValueId id) {
      return uses_[id] == 1 && gates_.is_leaf_of_tokens(id);
    });
    return has_parts ? std::optional(std::move(sum)) : std::nullopt;
  }

  bool is_sum(OpId id) const {
    return is_binary(id, BinaryFn::add) && type(operands(id)[0]).dims == type(operands(id)[1]).dims;
  }

  const Shard& shard_;
  const Gates& gates_;
  IdMap<ValueId, uint32_t> uses_;
  IdMap<OpId, uint8_t> taken_;
};

}  // namespace

std::vector<FusedOp> find_fused(const Shard& shard, const Gates& gates,
                                const IdMap<OpId, uint8_t>& excluded) {
  return FusedFinder(shard, gates, excluded).all();
}

}  // namespace moec
