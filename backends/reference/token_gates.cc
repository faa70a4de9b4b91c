// Gates of tokens: experts that some tokens chose.
#include <algorithm>
#include <bit>

#include "backends/reference/axis.h"
#include "backends/reference/gates.h"

namespace moec {
namespace {

// Axes that may count the tokens of the step, a bit each. Of a step of one token, several axes of
// size 1 may; the others that a value meets narrow them down.
using Axes = uint32_t;

constexpr Axes axis_bit(int64_t axis) { return Axes{1} << axis; }

class TokenAxes {
 public:
  TokenAxes(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought)
      : shard_(shard), is_brought_(is_brought), axes_(shard.values.size()) {
    for (const ValueId input : shard.inputs) axes_[input] = axes_of_layout(shard.type(input));
    for (const Op& op : shard.ops)
      if (op.results.size() == 1 && !is_brought[op.results.front()])
        axes_[op.results.front()] = axes_of(op);
  }

  // A value without a token axis cannot belong to the part of a gate, which affects only the speed.
  IdMap<ValueId, CountedAxis> find() const {
    IdMap<ValueId, CountedAxis> found(shard_.values.size());
    for (uint32_t i = 0; i < shard_.values.size(); ++i)
      if (const Axes axes = axes_[ValueId{i}]) found[ValueId{i}].axis = std::countr_zero(axes);
    return found;
  }

 private:
  // The token axis of each layout: [T, C], [1, C, T, 1] and [1, C, 1, T].
  static Axes axes_of_layout(const Type& type) {
    if (type.layout == Layout::rows) return axis_bit(0);
    if (type.layout == Layout::channels) return axis_bit(2);
    return type.layout == Layout::bc1s ? axis_bit(3) : 0;
  }

  const Dims& dims(ValueId id) const { return shard_.type(id).dims; }
  const Dims& result(const Op& op) const { return dims(op.results.front()); }
  Axes axes(const Op& op, size_t operand) const { return axes_[op.operands[operand]]; }

  Axes axes_of(const Op& op) const {
    return std::visit([&](const auto& data) { return of(data, op); }, op.data);
  }

  // Other ops may mix tokens, so their results have no token axis.
  template <class OpT>
  Axes of(const OpT&, const Op&) const {
    return 0;
  }
  Axes of(const InGroup<OpGroup::elementwise> auto&, const Op& op) const { return elementwise(op); }
  // An op that works along an axis mixes or renumbers its elements, so that axis no longer counts
  // tokens.
  Axes of(const OneOf<Slice, Softmax, Reduce> auto& data, const Op& op) const {
    return axes(op, 0) & ~axis_bit(data.axis);
  }

  // Axes along which all computed operands have the tokens, and the others are the same for all.
  Axes elementwise(const Op& op) const {
    Axes common = ~Axes{0};
    bool any = false;
    for (const ValueId id : op.operands) {
      if (!is_brought_[id]) common &= dims(id).rank() == result(op).rank() ? axes_[id] : 0;
      any |= !is_brought_[id];
    }
    if (!any) return 0;
    for (int64_t axis = 0; axis < result(op).rank(); ++axis)
      for (const ValueId id : op.operands)
        if (!fits(id, axis, result(op))) common &= ~axis_bit(axis);
    return common;
  }

  // True if the operand has the tokens of the result along the axis or, if no run computes it, the
  // same elements for all of them.
  bool fits(ValueId id, int64_t axis, const Dims& to) const {
    const int64_t own = axis - (to.rank() - dims(id).rank());
    if (is_brought_[id]) return own < 0 || dims(id).at(own) == 1;
    return own >= 0 && dims(id).at(own) == to.at(axis);
  }

  // Pointwise with weights: each token by itself.
  Axes of(const Conv&, const Op& op) const {
    const Dims& kernel = dims(op.operands[1]);
    const bool is_pointwise = kernel[2] * kernel[3] == 1 && is_brought_[op.operands[1]];
    return is_pointwise ? axes(op, 0) & (axis_bit(2) | axis_bit(3)) : 0;
  }

  // With a right factor that no run computes, each row of the result depends on one row of the left
  // factor.
  Axes of(const MatMul&, const Op& op) const {
    const bool is_row_wise =
        is_brought_[op.operands[1]] && dims(op.operands[0]).rank() == result(op).rank();
    return is_row_wise ? axes(op, 0) & axis_bit(result(op).rank() - 2) : 0;
  }

  Axes of(const Reshape&, const Op& op) const {
    const Dims& from = dims(op.operands[0]);
    const Dims& to = result(op);
    Axes kept = 0;
    for (int64_t old_axis = 0; old_axis < from.rank(); ++old_axis)
      for (int64_t axis = 0; axis < to.rank(); ++axis)
        if ((axes(op, 0) & axis_bit(old_axis)) != 0 && keeps_axis(from, old_axis, to, axis))
          kept |= axis_bit(axis);
    return kept;
  }

  const Shard& shard_;
  const IdMap<ValueId, uint8_t>& is_brought_;
  IdMap<ValueId, Axes> axes_;
};

// Knowledge about a value's elements at tokens whose gate is 0.
enum class AtZero : uint8_t { unknown, zero, is_true };

class GateFinder {
 public:
  GateFinder(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought, Gates& gates)
      : shard_(shard), is_brought_(is_brought), users_(find_users(shard)), gates_(gates) {
    gates_.token_axis = TokenAxes(shard, is_brought).find();
    for (const OpId id : op_ids(shard))
      for (const ValueId result : shard.ops[id].results) producer_[result] = id;
    for (const Output& output : shard.outputs) is_output_[output.value] = 1;
  }

  void find() {
    for (const ValueId input : shard_.inputs)
      if (is_per_token(input)) add({input, OpId{}});
    for (const OpId id : op_ids(shard_))
      if (const Op& op = shard_.ops[id];
          std::holds_alternative<Slice>(op.data) && is_per_token(op.results.front()))
        add({op.results.front(), id});
  }

 private:
  // True if the value has one number per token, as a gate must.
  bool is_per_token(ValueId id) const {
    const int32_t axis = gates_.token_axis[id].axis;
    const Dims& dims = shard_.type(id).dims;
    return axis >= 0 && shard_.type(id).elements() == dims.at(axis);
  }

  bool is_zero_constant(ValueId id) const {
    if (!producer_[id].valid()) return false;
    const auto* constant = std::get_if<Constant>(&shard_.ops[producer_[id]].data);
    return constant && std::all_of(constant->values.begin(), constant->values.end(),
                                   [](double value) { return value == 0; });
  }

  // The result's elements at tokens whose gate is 0. Zeros begin with a select by the gate: a
  // product with the gate itself is NaN for values that are not finite.
  AtZero at_zero(const Op& op, const IdMap<ValueId, AtZero>& known, ValueId gate) const {
    const auto all_zero = [&](size_t count) {
      return std::all_of(op.operands.begin(),
                         op.operands.begin() + static_cast<std::ptrdiff_t>(count),
                         [&](ValueId id) { return known[id] == AtZero::zero; });
    };
    if (const auto* compare = std::get_if<Compare>(&op.data))
      return compare->fn == CompareFn::equal && op.operands[0] == gate &&
                     is_zero_constant(op.operands[1])
                 ? AtZero::is_true
                 : AtZero::unknown;
    if (std::holds_alternative<Select>(op.data))
      return known[op.operands[0]] == AtZero::is_true && is_zero_constant(op.operands[1])
                 ? AtZero::zero
                 : AtZero::unknown;
    // These ops turn zeros into zeros. A convolution with a bias does not, so it must have two
    // operands. Weights are finite by the contract of GateAxis.
    const bool keeps =
        (std::holds_alternative<Conv>(op.data) && op.operands.size() == 2) ||
        std::holds_alternative<MatMul>(op.data) || std::holds_alternative<Reshape>(op.data) ||
        std::holds_alternative<Slice>(op.data) || std::holds_alternative<Cast>(op.data);
    return keeps && all_zero(1) ? AtZero::zero : AtZero::unknown;
  }

  // An op can be computed for some tokens only if its result and all its computed operands count
  // tokens. An op belongs to at most one part.
  bool may_join(const Op& op) const {
    if (op.results.size() != 1) return false;
    const ValueId result = op.results.front();
    return !is_brought_[result] && gates_.token_axis[result].axis >= 0 &&
           gates_.of_value[result] == Gates::kNone &&
           std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId id) {
             return is_brought_[id] || gates_.token_axis[id].axis >= 0;
           });
  }

  // Collects the ops whose results are zeros without the gate, then those that only they use.
  void add(const Gate& gate) {
    IdMap<ValueId, AtZero> known(shard_.values.size(), AtZero::unknown);
    IdMap<OpId, uint8_t> inside(shard_.ops.size());
    bool any = false;
    // Ops before the slice cannot depend on the gate.
    const uint32_t first = gate.slice.valid() ? gate.slice.index : 0;
    for (const OpId id : op_ids(shard_)) {
      const Op& op = shard_.ops[id];
      if (id.index < first || !may_join(op)) continue;
      known[op.results.front()] = at_zero(op, known, gate.weights);
      inside[id] = known[op.results.front()] == AtZero::zero;
      any |= inside[id] != 0;
    }
    if (!any) return;
    // Users come after producers, so one pass in reverse order finds whole chains of inner ops.
    for (size_t i = shard_.ops.size(); i-- > 0;) {
      const OpId id{static_cast<uint32_t>(i)};
      const Op& op = shard_.ops[id];
      if (id == gate.slice || !may_join(op) || is_output_[op.results.front()]) continue;
      const auto& users = users_[op.results.front()];
      const bool is_inner = !users.empty() && std::all_of(users.begin(), users.end(),
                                                          [&](OpId user) { return inside[user]; });
      if (is_inner && op.results.front() != gate.weights) inside[id] = 1;
    }
    if (is_ready_before(gate, inside)) join(gate, inside);
  }

  // True if what the gate is cut from is known before the part begins.
  bool is_ready_before(const Gate& gate, const IdMap<OpId, uint8_t>& inside) const {
    if (!gate.slice.valid()) return true;
    const OpId source = producer_[shard_.ops[gate.slice].operands.front()];
    for (const OpId id : op_ids(shard_))
      if (inside[id]) return !source.valid() || source < id;
    return false;
  }

  void join(Gate gate, const IdMap<OpId, uint8_t>& inside) {
    const auto number = static_cast<uint32_t>(gates_.gates.size());
    for (const OpId id : op_ids(shard_)) {
      if (!inside[id]) continue;
      const ValueId result = shard_.ops[id].results.front();
      const auto& users = users_[result];
      gates_.of_op[id] = number;
      gates_.of_value[result] = number;
      gates_.leaves[result] =
          is_output_[result] ||
          std::any_of(users.begin(), users.end(), [&](OpId user) { return !inside[user]; });
      gate.last_op = id.index;
    }
    gates_.gates.push_back(gate);
  }

  const Shard& shard_;
  const IdMap<ValueId, uint8_t>& is_brought_;
  IdMap<ValueId, std::vector<OpId>> users_;
  IdMap<ValueId, OpId> producer_;
  IdMap<ValueId, uint8_t> is_output_;
  Gates& gates_;
};

}  // namespace

void find_token_gates(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought, Gates& gates) {
  GateFinder(shard, is_brought, gates).find();
}

}  // namespace moec
