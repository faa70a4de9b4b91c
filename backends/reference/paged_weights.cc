#include "backends/reference/paged_weights.h"

#include "ir/base/invariant.h"

namespace moec {
namespace {

// A weight's view and the unit that has its bytes.
struct UnitView {
  size_t unit = 0;
  WeightView view;
};

std::optional<size_t> unit_of(const WeightView& view, const WeightTable& table,
                              const WeightPager& pager) {
  std::optional<size_t> unit;
  bool is_one = true;
  for_each_tensor(view, [&](const TensorSource& source, const Type&) {
    const TensorRange* range = table.find(source.name);
    const auto found = range ? pager.unit_of(table.files[range->file].path, range->offset,
                                             static_cast<uint64_t>(range->type.bytes()))
                             : std::nullopt;
    is_one = is_one && found && (!unit || *unit == *found);
    unit = found;
  });
  return is_one ? unit : std::nullopt;
}

using UnitViews = IdVector<ValueId, std::optional<UnitView>>;

// The view of a transpose or a reshape of a weight.
std::optional<UnitView> moved(const Op& op, const UnitViews& views) {
  if (op.operands.size() != 1 || !views[op.operands.front()]) return std::nullopt;
  const UnitView& of = *views[op.operands.front()];
  if (const auto* transpose = std::get_if<Transpose>(&op.data))
    return UnitView{of.unit, then(of.view, PermuteStep{transpose->perm})};
  if (const auto* reshape = std::get_if<Reshape>(&op.data))
    return UnitView{of.unit, then(of.view, ReshapeStep{reshape->dims})};
  return std::nullopt;
}

UnitViews find_views(const Shard& shard, const WeightTable& table, const WeightPager& pager) {
  UnitViews views;
  for (uint32_t i = 0; i < shard.values.size(); ++i) views.push({});
  for (const Op& op : shard.ops) {
    if (op.results.size() != 1) continue;
    std::optional<UnitView>& result = views[op.results.front()];
    const auto* weight = std::get_if<Weight>(&op.data);
    if (!weight) {
      result = moved(op, views);
    } else if (is_plain(weight->encoding)) {
      const auto unit = unit_of(weight->view, table, pager);
      if (unit) result = UnitView{*unit, weight->view};
    }
  }
  return views;
}

// Notes what each op takes of the units.
void find_uses(const Shard& shard, PagedWeights& paged) {
  for (const OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    if (!op.results.empty() && paged.values[op.results.front()]) continue;  // a view of another
    for (size_t i = 0; i < op.operands.size(); ++i) {
      std::optional<PagedWeight>& weight = paged.values[op.operands[i]];
      if (!weight) continue;
      paged.last_ops[weight->unit] = id.index;
      if (!takes_stored(shard, op, i)) weight->as_tensor = true;
    }
  }
  for (const Output& output : shard.outputs)
    MOEC_CHECK(!paged.values[output.value], "a weight of an expert is an output");
}

}  // namespace

bool takes_stored(const Shard& shard, const Op& op, size_t operand) {
  if (std::holds_alternative<MatMul>(op.data)) return true;
  if (!std::holds_alternative<Conv>(op.data) || operand != 1) return false;
  const Dims& dims = shard.type(op.operands[1]).dims;
  return dims[2] * dims[3] == 1;
}

Result<PagedWeights> find_paged(const Shard& shard, const WeightTable& table,
                                const WeightPager* pager) {
  PagedWeights paged;
  for (uint32_t i = 0; i < shard.values.size(); ++i) paged.values.push({});
  if (pager == nullptr) return paged;
  const UnitViews views = find_views(shard, table, *pager);
  for (uint32_t i = 0; i < shard.values.size(); ++i)
    if (const auto& found = views[ValueId{i}]) {
      MOEC_ASSIGN(HeldView view, HeldView::compile(found->view, table));
      paged.values[ValueId{i}] = PagedWeight{found->unit, std::move(view), false};
    }
  find_uses(shard, paged);
  return paged;
}

}  // namespace moec
