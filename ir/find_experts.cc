#include "ir/find_experts.h"

#include <algorithm>
#include <optional>

namespace moec {
namespace {

// The experts whose routing weights a value depends on, behind the routing weights.
struct Channels {
  int64_t first = 0, count = 0;  // 0: of none; kMixed: of several, added up
  static constexpr int64_t kMixed = -1;
  bool any() const { return count != 0; }
  bool one_set() const { return count > 0; }
  bool operator==(const Channels&) const = default;
};

Channels joined(const Channels& a, const Channels& b) {
  if (!a.any() || a == b) return b;
  return b.any() ? Channels{0, Channels::kMixed} : a;
}

class Finder {
 public:
  Finder(const Shard& shard, int64_t experts)
      : shard_(shard), experts_(experts), ops_(shard.ops.size()), values_(shard.values.size()) {}

  IdMap<OpId, OpRole> find() {
    mark_live();
    if (experts_ > 0) routing_ = find_routing_weights();
    if (routing_.valid()) {
      follow_channels();
      find_meetings();
      share_weights();
      find_router(routing_);
    }
    return std::move(ops_);
  }

 private:
  struct ValueFacts {
    bool varies = false;  // depends on an input or a state
    Channels channels;    // that it depends on
    Channels met;         // of values that it meets later on, where it has none itself
    bool seen_by_router = false;
  };

  const Op& op(OpId id) const { return shard_.ops[id]; }
  bool is_weight(ValueId value) const { return shard_.producer_as<Weight>(value) != nullptr; }
  bool has_all_channels(ValueId value) const {
    const Type& type = shard_.type(value);
    return type.layout != Layout::plain && channels_of(type) == experts_;
  }

  template <class Visit>
  void each_op_backwards(Visit visit) const {
    for (uint32_t i = static_cast<uint32_t>(shard_.ops.size()); i-- > 0;) visit(OpId{i});
  }

  void mark_live() {
    auto keep = [&](ValueId value) {
      if (OpId producer = shard_.values[value].producer; producer.valid())
        ops_[producer].live = true;
    };
    for (const Output& output : shard_.outputs) keep(output.value);
    each_op_backwards([&](OpId id) {
      if (std::holds_alternative<StateWrite>(op(id).data)) ops_[id].live = true;
      if (ops_[id].live)
        for (ValueId operand : op(id).operands) keep(operand);
    });
  }

  // ---- The routing weights ---------------------------------------------------------------------

  ValueId find_routing_weights() const {
    for (ValueId input : shard_.inputs)
      if (shard_.values[input].name == kRoutingWeights && has_all_channels(input)) return input;
    for (const Output& output : shard_.outputs)
      if (output.name == kRoutingWeights && has_all_channels(output.value)) return output.value;
    const ValueId cut = last_operand([&](const Op& op) { return cuts_channels(op); });
    return cut.valid() ? cut : last_operand([&](const Op& op) { return spreads_channels(op); });
  }

  template <class Accept>
  ValueId last_operand(Accept accept) const {
    ValueId last;
    for (OpId id : op_ids(shard_))
      if (ops_[id].live && !op(id).operands.empty() && has_all_channels(op(id).operands[0]) &&
          accept(op(id)) && (!last.valid() || last < op(id).operands[0]))
        last = op(id).operands[0];
    return last;
  }
  bool cuts_channels(const Op& op) const {
    const auto* slice = std::get_if<Slice>(&op.data);
    return slice && slice->axis == static_cast<int64_t>(kChannelAxis) && slice->size < experts_;
  }
  // [1, E, 1, T] or [T, E, 1]: each channel beside the inner channels of its expert.
  bool spreads_channels(const Op& op) const {
    const auto* reshape = std::get_if<Reshape>(&op.data);
    return reshape && reshape->layout == Layout::plain && reshape->dims.size() >= 3 &&
           reshape->dims[1] == experts_ && reshape->dims[2] == 1;
  }

  // ---- Experts
  // -----------------------------------------------------------------------------------

  // Forwards: what depends on which channels.
  void follow_channels() {
    for (ValueId input : shard_.inputs) values_[input].varies = true;
    values_[routing_].channels = {0, experts_};
    for (OpId id : op_ids(shard_)) {
      Channels channels;
      bool varies = std::holds_alternative<StateRead>(op(id).data);
      for (ValueId operand : op(id).operands) {
        channels = joined(channels, values_[operand].channels);
        varies |= values_[operand].varies;
      }
      if (!op(id).operands.empty() && op(id).operands[0] == routing_ && cuts_channels(op(id))) {
        const Slice& slice = std::get<Slice>(op(id).data);
        channels = {slice.begin, slice.size};
        ops_[id].narrows_routing = true;
      }
      for (ValueId result : op(id).results) {
        if (result != routing_) values_[result].channels = channels;
        values_[result].varies = varies;
      }
    }
  }

  // Which channels each value without any meets later on.
  void find_meetings() {
    each_op_backwards([&](OpId id) {
      if (!ops_[id].live) return;
      Channels later;
      for (ValueId result : op(id).results)
        if (result != routing_)
          later = joined(later, values_[result].channels.any() ? values_[result].channels
                                                               : values_[result].met);
      for (size_t i = 0; i < op(id).operands.size(); ++i)
        if (const ValueId operand = op(id).operands[i]; hands_back(op(id), i))
          values_[operand].met = joined(values_[operand].met, later);
    });
  }

  // Whether what the op's result meets is met by the operand: not by what several experts read, the
  // data of a projection, and not by what is added to an expert's result, unless it is a bias,
  // which is made of weights alone.
  bool hands_back(const Op& op, size_t operand) const {
    const ValueId value = op.operands[operand];
    if (values_[value].channels.any() || (is_projection(op) && operand == 0)) return false;
    const auto* binary = std::get_if<Binary>(&op.data);
    const bool adds_to_routed =
        binary && binary->fn == BinaryFn::add && values_[op.operands[1 - operand]].channels.any();
    return !adds_to_routed || !values_[value].varies;
  }

  void share_weights() {
    for (OpId id : op_ids(shard_)) {
      if (!std::holds_alternative<Weight>(op(id).data)) continue;
      const ValueId weight = op(id).results[0];
      const Channels& met = values_[weight].met;
      if (!met.one_set()) continue;
      const std::optional<size_t> axis = met.count == 1 ? 0 : expert_axis(weight, met.count);
      if (axis) ops_[id].share = {WeightRole::expert, met.first, met.count, *axis};
    }
  }

  // A contraction of what is routed already sums over experts: they lie along its inputs. Others
  // make the channels of each expert: they lie along its outputs.
  std::optional<size_t> expert_axis(ValueId weight, int64_t count) const {
    const Dims& dims = shard_.type(weight).dims;
    std::optional<size_t> axis = only_axis(dims);
    for (const Op& user : shard_.ops) {
      if (user.operands.size() < 2 || user.operands[1] != weight) continue;
      const bool sums = values_[user.operands[0]].channels.any();
      if (std::holds_alternative<Conv>(user.data)) axis = sums ? 1 : 0;
      if (std::holds_alternative<MatMul>(user.data)) axis = dims.size() - (sums ? 2 : 1);
    }
    return axis && dims[*axis] % count == 0 ? axis : std::nullopt;
  }

  // The axis of a vector, whatever its rank.
  static std::optional<size_t> only_axis(const Dims& dims) {
    size_t found = 0, axis = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 1) continue;
      ++found;
      axis = i;
    }
    return found == 1 ? std::optional(axis) : std::nullopt;
  }

  // ---- The router ------------------------------------------------------------------------------

  // Backwards to the projection that makes the logits, and no further.
  void find_router(ValueId value) {
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId at = open.back();
      open.pop_back();
      const OpId producer = shard_.values[at].producer;
      if (values_[at].seen_by_router || !producer.valid()) continue;
      values_[at].seen_by_router = true;
      const Op& made = op(producer);
      if (std::holds_alternative<Weight>(made.data)) {
        share_router(producer, only_axis(shard_.type(at).dims));
      } else if (is_projection(made)) {
        const size_t rank = shard_.type(made.operands[1]).rank();
        share_router(shard_.values[made.operands[1]].producer,
                     std::holds_alternative<Conv>(made.data) ? 0 : rank - 1);
        open.insert(open.end(), made.operands.begin() + 2, made.operands.end());
      } else {
        open.insert(open.end(), made.operands.begin(), made.operands.end());
      }
    }
  }

  bool is_projection(const Op& op) const {
    return (std::holds_alternative<Conv>(op.data) || std::holds_alternative<MatMul>(op.data)) &&
           is_weight(op.operands[1]);
  }

  void share_router(OpId weight, std::optional<size_t> axis) {
    if (axis && shard_.type(op(weight).results[0]).dims[*axis] == experts_)
      ops_[weight].share = {WeightRole::routing, 0, experts_, *axis};
  }

  const Shard& shard_;
  const int64_t experts_;
  IdMap<OpId, OpRole> ops_;
  IdMap<ValueId, ValueFacts> values_;
  ValueId routing_;
};

}  // namespace

IdMap<OpId, OpRole> find_experts(const Shard& shard, int64_t experts) {
  return Finder(shard, experts).find();
}

}  // namespace moec
