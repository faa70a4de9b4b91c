#include "backends/reference/paged_weights.h"

#include <algorithm>
#include <utility>

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

namespace {

void swap_last(Dims& dims) { std::swap(dims[dims.size() - 2], dims[dims.size() - 1]); }

// True if a reshape changes only the leading axes, so that the matrix of the last two axes stays
// whole.
bool keeps_last_axes(const Dims& from, const Dims& to) {
  return to.rank() >= 2 && std::equal(from.end() - 2, from.end(), to.end() - 2);
}

// The matrix with its view in the order of the value's axes.
WeightMatrix unturned(const WeightMatrix& matrix, const Dims& value) {
  if (!matrix.is_turned) return matrix;
  Dims axes;
  for (int64_t axis = 0; axis < value.rank(); ++axis) axes.push_back(axis);
  swap_last(axes);
  return {then(matrix.view, PermuteStep{axes}), false};
}

// `from` contains the sizes of the operand. A second swap of the last axes cancels the first. Other
// permutations need the view in the order of the value.
WeightMatrix transposed(const WeightMatrix& matrix, const Dims& from, const Dims& perm,
                        bool turns) {
  if (turns && swaps_last_axes(perm)) return {matrix.view, !matrix.is_turned};
  return {then(unturned(matrix, from).view, PermuteStep{perm}), false};
}

// The view of a turned matrix has its last two axes swapped, so the new sizes are swapped as well.
WeightMatrix reshaped(const WeightMatrix& matrix, const Dims& from, const Dims& to) {
  if (!matrix.is_turned || !keeps_last_axes(from, to))
    return {then(unturned(matrix, from).view, ReshapeStep{to}), false};
  Dims stored = to;
  swap_last(stored);
  return {then(matrix.view, ReshapeStep{stored}), true};
}

// Returns the matrix of a transpose or reshape of a weight; nullopt for all other ops.
std::optional<WeightMatrix> moved(const Shard& shard, const Op& op, const WeightMatrices& matrices,
                                  bool turns) {
  if (op.operands.size() != 1 || !matrices[op.operands.front()]) return std::nullopt;
  const WeightMatrix& of = *matrices[op.operands.front()];
  const Dims& from = shard.type(op.operands.front()).dims;
  if (const auto* transpose = std::get_if<Transpose>(&op.data))
    return transposed(of, from, transpose->perm, turns);
  if (const auto* reshape = std::get_if<Reshape>(&op.data))
    return reshaped(of, from, reshape->dims);
  return std::nullopt;
}

}  // namespace

WeightMatrices find_weight_matrices(const Shard& shard, bool turns) {
  WeightMatrices matrices;
  for (uint32_t i = 0; i < shard.values.size(); ++i) matrices.push({});
  for (const Op& op : shard.ops) {
    if (op.results.size() != 1) continue;
    const auto* weight = std::get_if<Weight>(&op.data);
    // No file contains the rounded values of an encoded weight, so it has no view of stored values.
    const bool is_held = weight && (is_plain(weight->encoding) || is_copied(weight->encoding));
    if (!weight)
      matrices[op.results.front()] = moved(shard, op, matrices, turns);
    else if (is_held)
      matrices[op.results.front()] = WeightMatrix{weight->view, false};
  }
  return matrices;
}

bool swaps_last_axes(const Dims& perm) {
  const auto rank = std::ssize(perm);
  if (rank < 2) return false;
  for (int64_t axis = 0; axis < rank - 2; ++axis)
    if (perm.at(axis) != axis) return false;
  return perm.at(rank - 2) == rank - 1;
}

bool reads_stored(const Shard& shard, const Op& op, size_t operand, bool is_turned) {
  // The kernels support a turned matrix only as the right factor (Products::multiply()).
  if (std::holds_alternative<MatMul>(op.data)) return operand == 1 || !is_turned;
  // Its matrices, of which it reads the rows of one expert at a time.
  if (std::holds_alternative<Moe>(op.data)) return !is_turned && (operand == 2 || operand == 3);
  if (!std::holds_alternative<Conv>(op.data) || operand != 1) return false;
  const Dims& dims = shard.type(op.operands[1]).dims;
  return !is_turned && dims[2] * dims[3] == 1;
}

}  // namespace moec
