#include "ir/analysis/find_experts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "ir/analysis/cost.h"

namespace moec {
namespace {

// The experts on whose routing weights a value depends.
struct Channels {
  int64_t first = 0, count = 0;  // count 0: none; kMixed: a sum over several
  static constexpr int64_t kMixed = -1;
  bool any() const { return count != 0; }
  bool one_set() const { return count > 0; }
  bool operator==(const Channels&) const = default;
};

Channels joined(const Channels& a, const Channels& b) {
  if (!a.any() || a == b) return b;
  return b.any() ? Channels{0, Channels::kMixed} : a;
}

using MarkedOps = IdMap<OpId, uint8_t>;  // 1: marked

template <class Visit>
void each_op_backwards(const Shard& shard, Visit visit) {
  for (uint32_t i = static_cast<uint32_t>(shard.ops.size()); i-- > 0;) visit(OpId{i});
}

// Marks the ops that the values `ends` depend on; with `writes`, also state writes and the ops that
// they depend on.
MarkedOps needed_for(const Shard& shard, const std::vector<ValueId>& ends, bool writes) {
  MarkedOps needed(shard.ops.size());
  auto keep = [&](ValueId value) {
    if (OpId producer = shard.values[value].producer; producer.valid()) needed[producer] = 1;
  };
  for (ValueId end : ends) keep(end);
  each_op_backwards(shard, [&](OpId id) {
    if (writes && writes_state(shard.ops[id].data)) needed[id] = 1;
    if (needed[id])
      for (ValueId operand : shard.ops[id].operands) keep(operand);
  });
  return needed;
}

// Finds one MoE layer: the last among the ops in scope.
class LayerFinder {
 public:
  LayerFinder(const Shard& shard, int64_t experts, const MarkedOps& scope)
      : shard_(shard), experts_(experts), scope_(scope), values_(shard.values.size()) {}

  // Returns false if there are no routing weights.
  bool find(IdMap<OpId, OpRole>& ops) {
    routing_ = find_routing_weights();
    if (!routing_.valid()) return false;
    follow_channels(ops);
    find_meetings();
    share_weights();
    find_router();
    return true;
  }

  const std::vector<std::pair<OpId, WeightShare>>& shares() const { return shares_; }
  // The inputs of the projections that compute the router's logits.
  const std::vector<ValueId>& router_inputs() const { return router_inputs_; }

 private:
  struct ValueFacts {
    bool varies = false;     // depends on an input or a state
    bool projected = false;  // after a projection of a value with channels
    Channels channels;       // of routing weights on which the value depends
    Channels met;            // of the values that it is combined with later, if `channels` is empty
  };

  // A weight as the operand of a projection.
  struct Matrix {
    ValueId weight;
    const Transpose* transpose = nullptr;  // null: not transposed
    size_t leading = 0;                    // axes of length 1 before those of the weight
    // The weight's axis that is this axis of the operand.
    size_t axis_of(size_t axis) const {
      axis -= leading;
      return transpose ? static_cast<size_t>(transpose->perm[axis]) : axis;
    }
  };

  const Op& op(OpId id) const { return shard_.ops[id]; }
  // Returns the weight that produces a value, possibly through a transpose and a reshape that adds
  // leading axes of length 1.
  std::optional<Matrix> matrix_of(ValueId value) const {
    Matrix matrix;
    if (shard_.producer_as<Reshape>(value)) {
      const ValueId source = op(shard_.values[value].producer).operands[0];
      const Dims &from = shard_.type(source).dims, &to = shard_.type(value).dims;
      if (to.size() < from.size()) return std::nullopt;
      matrix.leading = to.size() - from.size();
      if (!std::equal(from.begin(), from.end(),
                      to.begin() + static_cast<ptrdiff_t>(matrix.leading)))
        return std::nullopt;
      value = source;
    }
    matrix.transpose = shard_.producer_as<Transpose>(value);
    if (matrix.transpose) value = op(shard_.values[value].producer).operands[0];
    if (!shard_.producer_as<Weight>(value)) return std::nullopt;
    matrix.weight = value;
    return matrix;
  }
  bool has_all_channels(ValueId value) const {
    const Type& type = shard_.type(value);
    return type.layout != Layout::plain && channels_of(type) == experts_;
  }

  // ---- The routing weights ---------------------------------------------------------------------

  ValueId find_routing_weights() const {
    for (ValueId input : shard_.inputs)
      if (shard_.values[input].name == kRoutingWeights && has_all_channels(input)) return input;
    for (const Output& output : shard_.outputs)
      if (output.name == kRoutingWeights && has_all_channels(output.value)) return output.value;
    const ValueId cut = last_operand([&](const Op& op) { return cuts_channels(op); });
    const ValueId whole = last_operand([&](const Op& op) { return is_moe(op); });
    // Layers of one shard may differ in form, so the later value is of the later layer.
    if (whole.valid() && (!cut.valid() || cut < whole)) return whole;
    return cut.valid() ? cut : last_operand([&](const Op& op) { return spreads_channels(op); });
  }

  static bool is_moe(const Op& op) { return std::holds_alternative<Moe>(op.data); }
  bool applies_matrices(const Op& op) const { return is_projection(op) || is_moe(op); }

  template <class Accept>
  ValueId last_operand(Accept accept) const {
    ValueId last;
    for (OpId id : op_ids(shard_)) {
      if (!scope_[id] || op(id).operands.empty()) continue;
      const ValueId value = op(id).operands[is_moe(op(id)) ? 1 : 0];
      if (has_all_channels(value) && accept(op(id)) && (!last.valid() || last < value) &&
          are_scores(value))
        last = value;
    }
    return last;
  }

  // True if the value is an input, or computed from a softmax or a sigmoid. Other values may also
  // have one channel per expert by coincidence, such as the heads of a query.
  bool are_scores(ValueId value) const {
    if (!shard_.values[value].producer.valid()) return true;
    bool found = false;
    each_up_to_projections(value, [&](ValueId, OpId producer) {
      const auto* unary = std::get_if<Unary>(&op(producer).data);
      found |= std::holds_alternative<Softmax>(op(producer).data) ||
               (unary && unary->fn == UnaryFn::sigmoid);
    });
    return found;
  }

  bool cuts_channels(const Op& op) const {
    const auto* slice = std::get_if<Slice>(&op.data);
    return slice && slice->axis == kChannelAxis && slice->size < experts_;
  }
  // True for a reshape to [1, E, 1, T] or [T, E, 1], which broadcasts each channel over the inner
  // channels of its expert.
  bool spreads_channels(const Op& op) const {
    const auto* reshape = std::get_if<Reshape>(&op.data);
    return reshape && reshape->layout == Layout::plain && reshape->dims.size() >= 3 &&
           reshape->dims[1] == experts_ && reshape->dims[2] == 1;
  }

  // ---- Experts ---------------------------------------------------------------------------------

  // Forwards: finds the channels that each value depends on.
  void follow_channels(IdMap<OpId, OpRole>& ops) {
    for (ValueId input : shard_.inputs) values_[input].varies = true;
    values_[routing_].channels = {0, experts_};
    for (OpId id : op_ids(shard_)) {
      if (!scope_[id]) continue;
      ValueFacts facts = made_from(op(id));
      if (!op(id).operands.empty() && op(id).operands[0] == routing_ && cuts_channels(op(id))) {
        const Slice& slice = std::get<Slice>(op(id).data);
        facts.channels = {slice.begin, slice.size};
        ops[id].narrows_routing = true;
      }
      for (ValueId result : op(id).results) {
        if (result == routing_) facts.channels = values_[routing_].channels;
        values_[result] = facts;
      }
    }
  }

  // Facts that an op's results inherit from its operands.
  ValueFacts made_from(const Op& op) const {
    ValueFacts facts{.varies = reads_state(op.data)};
    for (ValueId operand : op.operands) {
      facts.channels = joined(facts.channels, values_[operand].channels);
      facts.varies |= values_[operand].varies;
      facts.projected |= values_[operand].projected;
    }
    if (!facts.channels.any()) return facts;
    const bool projects = applies_matrices(op);
    if (leaves_experts(op) || (projects && facts.projected)) facts.channels = {0, Channels::kMixed};
    facts.projected |= projects;
    return facts;
  }

  // True if the weights after the op belong to no expert: the op adds a routed value and the
  // residual, which is not routed. made_from() treats a second projection of routed values in the
  // same way: routing weights multiply the input of an expert's last projection, so a further
  // projection maps the sum of experts.
  bool leaves_experts(const Op& op) const {
    const auto* binary = std::get_if<Binary>(&op.data);
    return binary && binary->fn == BinaryFn::add &&
           std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId operand) {
             return values_[operand].varies && !values_[operand].channels.any();
           });
  }

  // Backwards: finds the channels that each value without channels is combined with later.
  void find_meetings() {
    each_op_backwards(shard_, [&](OpId id) {
      if (!scope_[id]) return;
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

  // True if the operand is combined with the same channels as the op's result. False for the data
  // of a projection, which several experts read; for a value that is added to an expert's result,
  // unless it is a bias, which is computed from weights only; and for a vector of weights that
  // scales a routed value.
  bool hands_back(const Op& op, size_t operand) const {
    const ValueId value = op.operands[operand];
    if (values_[value].channels.any() || (applies_matrices(op) && operand == 0)) return false;
    const auto* binary = std::get_if<Binary>(&op.data);
    if (!binary || !values_[op.operands[1 - operand]].channels.any()) return true;
    if (binary->fn == BinaryFn::mul) return values_[value].varies;
    return binary->fn != BinaryFn::add || !values_[value].varies;
  }

  void share_weights() {
    for (OpId id : op_ids(shard_)) {
      if (!scope_[id] || !std::holds_alternative<Weight>(op(id).data)) continue;
      const ValueId weight = op(id).results[0];
      const Channels& met = values_[weight].met;
      if (!met.one_set()) continue;
      const std::optional<size_t> axis = met.count == 1 ? 0 : expert_axis(weight, met.count);
      if (axis) shares_.push_back({id, {WeightRole::expert, 0, met.first, met.count, *axis}});
    }
  }

  // The axis of the experts in a bank's weight. A contraction of a routed value sums over experts,
  // so the experts lie along the inputs. Any other contraction computes the channels of each
  // expert, so the experts lie along the outputs.
  std::optional<size_t> expert_axis(ValueId weight, int64_t count) const {
    const Dims& dims = shard_.type(weight).dims;
    std::optional<size_t> axis = only_axis(dims);
    for (OpId id : op_ids(shard_)) {
      const Op& user = op(id);
      if (!scope_[id] || user.operands.size() < 2) continue;
      if (is_moe(user) && std::count(user.operands.begin(), user.operands.end(), weight) > 0)
        return dims[0] == count ? std::optional<size_t>(0) : std::nullopt;
      const std::optional<Matrix> matrix = matrix_of(user.operands[1]);
      if (!matrix || matrix->weight != weight) continue;
      const bool sums = values_[user.operands[0]].channels.any();
      const size_t rank = shard_.type(user.operands[1]).dims.size();
      if (std::holds_alternative<Conv>(user.data)) axis = matrix->axis_of(sums ? 1 : 0);
      if (std::holds_alternative<MatMul>(user.data)) axis = matrix->axis_of(rank - (sums ? 2 : 1));
    }
    return axis && dims[*axis] % count == 0 ? axis : std::nullopt;
  }

  // The only axis that is longer than 1, if there is one.
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

  void find_router() {
    each_up_to_projections(routing_, [&](ValueId value, OpId producer) {
      const Op& made = op(producer);
      if (std::holds_alternative<Weight>(made.data)) {
        share_router(producer, only_axis(shard_.type(value).dims));
      } else if (is_projection(made)) {
        const Matrix matrix = *matrix_of(made.operands[1]);
        const size_t rank = shard_.type(made.operands[1]).dims.size();
        share_router(shard_.values[matrix.weight].producer,
                     matrix.axis_of(std::holds_alternative<Conv>(made.data) ? 0 : rank - 1));
        router_inputs_.push_back(made.operands[0]);
      }
    });
  }

  // Calls visit(value, producer) backwards from `value`, up to and including the projections that
  // compute it. Continues through the bias of a projection, but not through its other operands.
  template <class Visit>
  void each_up_to_projections(ValueId value, Visit visit) const {
    std::set<ValueId> seen;
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId at = open.back();
      open.pop_back();
      const OpId producer = shard_.values[at].producer;
      if (!producer.valid() || !seen.insert(at).second) continue;
      visit(at, producer);
      const Op& made = op(producer);
      const size_t first = is_projection(made) ? 2 : 0;
      open.insert(open.end(), made.operands.begin() + static_cast<ptrdiff_t>(first),
                  made.operands.end());
    }
  }

  bool is_projection(const Op& op) const {
    return is_contraction(op.data) && matrix_of(op.operands[1]).has_value();
  }

  void share_router(OpId weight, std::optional<size_t> axis) {
    if (axis && shard_.type(op(weight).results[0]).dims[*axis] == experts_)
      shares_.push_back({weight, {WeightRole::routing, 0, 0, experts_, *axis}});
  }

  const Shard& shard_;
  const int64_t experts_;
  const MarkedOps& scope_;
  IdMap<ValueId, ValueFacts> values_;
  ValueId routing_;
  std::vector<std::pair<OpId, WeightShare>> shares_;
  std::vector<ValueId> router_inputs_;
};

constexpr size_t kFree = std::numeric_limits<size_t>::max(), kSeveral = kFree - 1;

// Copies the shares of a layer to `ops`. A weight that two layers use belongs to no expert.
void take_shares(const LayerFinder& finder, size_t layer, IdMap<OpId, size_t>& owners,
                 IdMap<OpId, OpRole>& ops) {
  for (auto [id, share] : finder.shares()) {
    share.moe_layer = layer;
    const bool own = owners[id] == kFree || owners[id] == layer;
    ops[id].share = own ? share : WeightShare();
    // Without the state kSeveral, a third layer could claim a weight that two layers share.
    owners[id] = own ? layer : kSeveral;
  }
}

}  // namespace

int64_t expert_weight_bytes(const Shard& shard, const IdMap<OpId, OpRole>& roles, CodeFormOf form) {
  int64_t bytes = 0;
  for (OpId id : op_ids(shard))
    if (roles[id].share.role == WeightRole::expert)
      bytes += weight_bytes(shard, shard.ops[id].results[0], form);
  return bytes;
}

IdMap<OpId, OpRole> find_experts(const Shard& shard, int64_t experts, size_t moe_layers) {
  std::vector<ValueId> ends;
  for (const Output& output : shard.outputs) ends.push_back(output.value);
  MarkedOps scope = needed_for(shard, ends, true);
  IdMap<OpId, OpRole> ops(shard.ops.size());
  for (OpId id : op_ids(shard)) ops[id].live = scope[id] != 0;
  IdMap<OpId, size_t> owners(shard.ops.size(), kFree);
  for (size_t layer = moe_layers; layer-- > 0;) {
    // Each iteration finds the last MoE layer in scope. The next scope has the producers of its
    // router's inputs, which include the previous layer.
    LayerFinder finder(shard, experts, scope);
    if (!finder.find(ops)) break;
    take_shares(finder, layer, owners, ops);
    scope = needed_for(shard, finder.router_inputs(), false);
  }
  return ops;
}

}  // namespace moec
