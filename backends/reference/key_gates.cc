// Key gates: attention masks. The part of a key gate (gates.h) contains the ops from the KV caches
// to the reductions over the keys: scores, probabilities, and casts, concatenations and transposes
// of keys and values.
#include <algorithm>

#include "backends/reference/axis.h"
#include "backends/reference/gates.h"

namespace moec {
namespace {

// The axis of `to` that has the elements of an axis of `from` after a reshape; -1: none.
int32_t reshaped_axis(const Dims& from, int32_t axis, const Dims& to) {
  for (int32_t i = 0; i < to.rank(); ++i)
    if (keeps_axis(from, axis, to, i)) return i;
  return -1;
}

// A value's elements at keys that no token sees.
//   low     masked scores: far below those of the other keys
//   zero    probabilities
enum class AtHidden : uint8_t { unknown, low, zero };

// The part of one mask.
class KeyPart {
 public:
  KeyPart(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought)
      : shard_(shard), is_brought_(is_brought), users_(find_users(shard)) {
    for (const OpId id : op_ids(shard))
      for (const ValueId result : shard.ops[id].results) producer_[result] = id;
    for (const Output& output : shard.outputs) is_output_[output.value] = 1;
  }

  // Adds the part to `gates` if a sum over the keys ends each use of the mask.
  void add(ValueId mask, Gates& gates) {
    axis_ = IdMap<ValueId, CountedAxis>(shard_.values.size());
    at_hidden_ = IdMap<ValueId, AtHidden>(shard_.values.size());
    inside_ = IdMap<OpId, uint8_t>(shard_.ops.size());
    reads_ = IdMap<OpId, int64_t>(shard_.ops.size());
    axis_[mask].axis = static_cast<int32_t>(dims(mask).rank()) - 1;
    at_hidden_[mask] = AtHidden::low;
    bool any = false;
    for (const OpId id : op_ids(shard_)) {
      const auto& operands = shard_.ops[id].operands;
      if (std::none_of(operands.begin(), operands.end(),
                       [&](ValueId operand) { return knows(operand); }))
        continue;
      if (!follow(id)) return;
      any = true;
    }
    if (any) join(mask, gates);
  }

 private:
  const Dims& dims(ValueId id) const { return shard_.type(id).dims; }
  bool knows(ValueId id) const { return at_hidden_[id] != AtHidden::unknown; }

  // Follows an op with a masked operand. Returns false if the op needs the keys that are hidden.
  bool follow(OpId id) {
    const Op& op = shard_.ops[id];
    if (op.results.size() != 1) return false;
    inside_[id] = 1;
    reads_[id] = 1;
    return std::visit([&](const auto& data) { return follow(data, op); }, op.data);
  }

  template <class OpT>
  bool follow(const OpT&, const Op&) {
    return false;
  }
  bool follow(const Cast&, const Op& op) { return passes_on(op, axis_[op.operands[0]].axis); }
  // A slice along the keys would change their numbers, so it ends the analysis.
  bool follow(const Slice& slice, const Op& op) {
    const int32_t axis = axis_[op.operands[0]].axis;
    return slice.axis != axis && passes_on(op, axis);
  }
  bool follow(const Reshape&, const Op& op) {
    const ValueId from = op.operands[0];
    return passes_on(op, reshaped_axis(dims(from), axis_[from].axis, dims(op.results[0])));
  }
  bool follow(const Transpose& transpose, const Op& op) {
    return passes_on(op, transposed_axis(transpose, axis_[op.operands[0]].axis));
  }
  // exp() of a low score underflows to 0. Other functions have no known value at hidden keys.
  bool follow(const Unary& unary, const Op& op) {
    if (unary.fn != UnaryFn::exp || at_hidden_[op.operands[0]] != AtHidden::low) return false;
    return gets(op, axis_[op.operands[0]].axis, AtHidden::zero);
  }
  bool follow(const Softmax& softmax, const Op& op) {
    const ValueId from = op.operands[0];
    if (at_hidden_[from] != AtHidden::low || softmax.axis != axis_[from].axis) return false;
    return gets(op, axis_[from].axis, AtHidden::zero);
  }
  // The keys end here.
  bool follow(const Reduce& reduce, const Op& op) {
    const AtHidden from = at_hidden_[op.operands[0]];
    return reduce.axis == axis_[op.operands[0]].axis &&
           ((reduce.fn == ReduceFn::max && from == AtHidden::low) ||
            (reduce.fn == ReduceFn::sum && from == AtHidden::zero));
  }
  // A product with probabilities: 0 times a finite value adds nothing, so hidden keys need not be
  // read from the right factor.
  bool follow(const MatMul&, const Op& op) {
    const ValueId left = op.operands[0], right = op.operands[1];
    if (at_hidden_[left] != AtHidden::zero || knows(right)) return false;
    if (axis_[left].axis != dims(left).rank() - 1) return false;
    ++reads_[producer_[op.results[0]]];
    return want(right, {static_cast<int32_t>(dims(right).rank()) - 2, 0});
  }
  // A low score stays low after an addition, or after a subtraction of one number for all keys. A
  // zero stays zero after a product, or after a division by one number for all keys. The operand
  // may not be the subtrahend or the divisor.
  bool follow(const Binary& binary, const Op& op) {
    const size_t known = knows(op.operands[0]) ? 0 : 1;
    const ValueId from = op.operands[known], other = op.operands[1 - known];
    const Dims& to = dims(op.results[0]);
    if (knows(other) || dims(from).rank() != to.rank()) return false;
    const bool is_low = at_hidden_[from] == AtHidden::low;
    const bool is_even = is_same_for_all(other, axis_[from].axis, to.rank());
    const bool keeps =
        is_low
            ? binary.fn == BinaryFn::add || (binary.fn == BinaryFn::sub && known == 0 && is_even)
            : binary.fn == BinaryFn::mul || (binary.fn == BinaryFn::div && known == 0 && is_even);
    if (!keeps) return false;
    const int32_t axis = axis_[from].axis;
    if (!is_even) ++reads_[producer_[op.results[0]]];
    return (is_even || want(other, {axis, 0})) && gets(op, axis, at_hidden_[from]);
  }

  static int32_t transposed_axis(const Transpose& transpose, int32_t axis) {
    const auto at = std::find(transpose.perm.begin(), transpose.perm.end(), axis);
    return static_cast<int32_t>(at - transpose.perm.begin());
  }

  bool passes_on(const Op& op, int32_t axis) { return gets(op, axis, at_hidden_[op.operands[0]]); }

  // Records the axis of keys of a result. Returns false for outputs, which must be whole, and for
  // values that already have an axis of keys.
  bool gets(const Op& op, int32_t axis, AtHidden at_hidden) {
    const ValueId result = op.results[0];
    if (axis < 0 || is_output_[result] || axis_[result].axis >= 0) return false;
    axis_[result].axis = axis;
    at_hidden_[result] = at_hidden;
    return true;
  }

  // True if an operand of an elementwise op has one element for all keys.
  bool is_same_for_all(ValueId id, int64_t axis, int64_t rank) const {
    const int64_t own = axis - (rank - dims(id).rank());
    return own < 0 || dims(id).at(own) == 1;
  }

  // Gives a value that attention reads its axis of keys, and follows it to where it comes from.
  // Values whose op does not compute each key by itself are read as they are.
  bool want(ValueId id, const CountedAxis& axis) {
    if (knows(id) || is_brought_[id]) return false;
    if (axis_[id].axis >= 0) return axis_[id] == axis;
    axis_[id] = axis;
    if (!producer_[id].valid()) return true;
    const Op& op = shard_.ops[producer_[id]];
    std::vector<Wanted> wanted;
    if (op.results.size() == 1)
      wanted = std::visit([&](const auto& data) { return reads(data, op, axis); }, op.data);
    if (wanted.empty()) return true;
    inside_[producer_[id]] = 1;
    reads_[producer_[id]] = std::ssize(wanted);
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const Wanted& operand) { return want(operand.id, operand.axis); });
  }

  struct Wanted {
    ValueId id;
    CountedAxis axis;
  };

  // Operands that have the keys of a result; none if the op does not compute each key by itself.
  template <class OpT>
  std::vector<Wanted> reads(const OpT&, const Op&, const CountedAxis&) const {
    return {};
  }
  std::vector<Wanted> reads(const OneOf<Unary, Cast> auto&, const Op& op,
                            const CountedAxis& axis) const {
    return {{op.operands[0], axis}};
  }
  std::vector<Wanted> reads(const Binary&, const Op& op, const CountedAxis& axis) const {
    std::vector<Wanted> wanted;
    const int64_t rank = dims(op.results[0]).rank();
    for (const ValueId id : op.operands) {
      if (is_same_for_all(id, axis.axis, rank)) continue;
      if (is_brought_[id] || dims(id).rank() != rank) return {};
      wanted.push_back({id, axis});
    }
    return wanted;
  }
  std::vector<Wanted> reads(const Slice& slice, const Op& op, const CountedAxis& axis) const {
    if (slice.axis == axis.axis) return {};
    return {{op.operands[0], axis}};
  }
  std::vector<Wanted> reads(const Reshape&, const Op& op, const CountedAxis& axis) const {
    const int32_t from = reshaped_axis(dims(op.results[0]), axis.axis, dims(op.operands[0]));
    if (from < 0) return {};
    return {{op.operands[0], {from, axis.first}}};
  }
  std::vector<Wanted> reads(const Transpose& transpose, const Op& op,
                            const CountedAxis& axis) const {
    const auto from = transpose.perm[static_cast<size_t>(axis.axis)];
    return {{op.operands[0], {static_cast<int32_t>(from), axis.first}}};
  }
  // Along the keys, each part continues the numbers of the part before it. This is how new rows
  // follow a cache.
  std::vector<Wanted> reads(const Concat& concat, const Op& op, const CountedAxis& axis) const {
    std::vector<Wanted> wanted;
    CountedAxis own = axis;
    for (const ValueId id : op.operands) {
      if (is_brought_[id]) return {};
      wanted.push_back({id, own});
      if (concat.axis == axis.axis) own.first += dims(id).at(axis.axis);
    }
    return wanted;
  }
  // Rows of a product come from the left factor, columns from the right one. Axes before them are
  // batches.
  std::vector<Wanted> reads(const MatMul&, const Op& op, const CountedAxis& axis) const {
    const int64_t rank = dims(op.results[0]).rank();
    const size_t operand = axis.axis == rank - 1 ? 1 : 0;
    const ValueId id = op.operands[operand];
    if (axis.axis < rank - 2 || is_brought_[id]) return {};
    return {{id, {axis.axis - static_cast<int32_t>(rank - dims(id).rank()), axis.first}}};
  }

  // Leaves out ops whose results are needed whole: by an output, or by an op outside. Visits the
  // ops in reverse order, because an op that is left out makes its producers shared as well.
  void leave_out_shared() {
    for (size_t i = shard_.ops.size(); i-- > 0;) {
      const OpId id{static_cast<uint32_t>(i)};
      if (!inside_[id]) continue;
      const ValueId result = shard_.ops[id].results[0];
      if (axis_[result].axis < 0) continue;  // a sum over the keys
      const auto& users = users_[result];
      if (is_output_[result] ||
          !std::all_of(users.begin(), users.end(), [&](OpId user) { return inside_[user] != 0; }))
        inside_[id] = 0;
    }
  }

  bool meets_another(const Gates& gates) const {
    for (const OpId id : op_ids(shard_))
      if (inside_[id] && gates.of_op[id] != Gates::kNone) return true;
    return false;
  }

  // True if an op of the part reads a value with keys in another role, too, such as queries that
  // are the keys themselves. The op would need the value whole.
  bool reads_whole_keys() const {
    for (const OpId id : op_ids(shard_)) {
      const auto& operands = shard_.ops[id].operands;
      const auto with_keys = std::count_if(operands.begin(), operands.end(), [&](ValueId operand) {
        return axis_[operand].axis >= 0;
      });
      if (inside_[id] && with_keys != reads_[id]) return true;
    }
    return false;
  }

  // Adds the part under the next gate number, unless it overlaps the part of another gate.
  void join(ValueId mask, Gates& gates) {
    leave_out_shared();
    if (meets_another(gates) || reads_whole_keys()) return;
    const auto number = static_cast<uint32_t>(gates.gates.size());
    Gate gate{.weights = mask, .slice = {}, .along = GateAxis::keys};
    for (const OpId id : op_ids(shard_)) {
      if (!inside_[id]) continue;
      const ValueId result = shard_.ops[id].results[0];
      gates.of_op[id] = number;
      if (axis_[result].axis >= 0) gates.of_value[result] = number;
      gate.last_op = id.index;
    }
    gate.key_axis = std::move(axis_);
    gates.gates.push_back(std::move(gate));
  }

  const Shard& shard_;
  const IdMap<ValueId, uint8_t>& is_brought_;
  IdMap<ValueId, std::vector<OpId>> users_;
  IdMap<ValueId, OpId> producer_;
  IdMap<ValueId, uint8_t> is_output_;
  IdMap<ValueId, CountedAxis> axis_;
  IdMap<ValueId, AtHidden> at_hidden_;
  IdMap<OpId, uint8_t> inside_;
  IdMap<OpId, int64_t> reads_;  // number of operands that the op reads along the keys
};

// True for a float input [1, 1, T, keys]. Other inputs of this form are told apart by their uses.
bool may_be_mask(const Type& type) {
  return is_float(type.dtype) && type.layout == Layout::plain && type.dims.rank() == 4 &&
         type.dims[0] == 1 && type.dims[1] == 1 && type.dims[3] > 1;
}

}  // namespace

void find_key_gates(const Shard& shard, const IdMap<ValueId, uint8_t>& is_brought, Gates& gates) {
  KeyPart part(shard, is_brought);
  for (const ValueId input : shard.inputs)
    if (may_be_mask(shard.type(input))) part.add(input, gates);
}

}  // namespace moec
