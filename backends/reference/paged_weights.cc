#include "backends/reference/paged_weights.h"

#include "ir/base/invariant.h"

namespace moec {
namespace {

// Returns the unit that contains all tensors of the view. Returns nullopt if they are in several
// units or in none, because a run acquires one unit per weight.
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

// Records the uses of each unit by ops.
void find_uses(const Shard& shard, PagedWeights& paged) {
  for (const OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    if (!op.results.empty() && paged.values[op.results.front()])
      continue;  // a view of another weight
    for (size_t i = 0; i < op.operands.size(); ++i) {
      std::optional<PagedWeight>& weight = paged.values[op.operands[i]];
      if (!weight) continue;
      // Ops are visited in order, so the last assignment is the last use.
      paged.last_ops[weight->unit] = id.index;
      if (!reads_stored(shard, op, i, weight->is_turned)) weight->as_tensor = true;
    }
  }
  for (const Output& output : shard.outputs)
    MOEC_CHECK(!paged.values[output.value], "a weight of an expert is an output");
}

}  // namespace

Result<PagedWeights> find_paged(const Shard& shard, const WeightMatrices& matrices,
                                const WeightTable& table, const WeightPager* pager) {
  PagedWeights paged;
  for (uint32_t i = 0; i < shard.values.size(); ++i) paged.values.push({});
  if (pager == nullptr) return paged;
  for (uint32_t i = 0; i < shard.values.size(); ++i) {
    const auto& matrix = matrices[ValueId{i}];
    const auto unit = matrix ? unit_of(matrix->view, table, *pager) : std::nullopt;
    if (!unit) continue;
    MOEC_ASSIGN(HeldView view, HeldView::compile(matrix->view, table));
    paged.values[ValueId{i}] = PagedWeight{*unit, std::move(view), matrix->is_turned, false};
  }
  find_uses(shard, paged);
  return paged;
}

}  // namespace moec
