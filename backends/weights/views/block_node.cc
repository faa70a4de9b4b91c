#include "backends/weights/views/block_node.h"

#include <algorithm>
#include <list>

#include "backends/weights/views/convert.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// Returns the bytes of an element before decoding; 0 if it needs no decoding.
uint64_t raw_bytes(const ViewNode& node) {
  return node.type().dtype == DType::f32 ? 0 : node.width();
}

uint64_t read_bytes(const ViewNode& node, uint64_t elements, const ReaderOptions& options) {
  return elements * raw_bytes(node) + node.scratch_bytes(elements, options);
}

Status read_floats(const ViewNode& node, const Region& region, float* to, ReadContext& context) {
  if (node.type().dtype == DType::f32)
    return node.read_packed(region, reinterpret_cast<std::byte*>(to), context);
  const auto count = static_cast<size_t>(elements_of(region));
  auto raw = context.scratch.take(count * node.width());
  MOEC_TRY(node.read_packed(region, raw.data(), context));
  decode(node.type().dtype, raw.data(), count, to);
  return {};
}

int64_t product(const Dims& dims, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t axis = begin; axis < end; ++axis) result *= dims[axis];
  return result;
}

}  // namespace

BlockNode::BlockNode(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks)
    : ViewNode({DType::f32, child->type().dims}),
      child_(std::move(child)),
      parameters_(std::move(parameters)),
      blocks_(std::move(blocks)) {}

Status BlockNode::read(const Region& region, const Destination& to, ReadContext& context) const {
  const auto count = static_cast<size_t>(elements_of(region));
  auto values = context.scratch.take(count * sizeof(float));
  MOEC_TRY(read_floats(*child_, region, values.floats(), context));
  const Region blocks = blocks_of(region);
  // A std::list, because buffers cannot be moved or copied.
  std::list<Scratch::Buffer> buffers;
  std::vector<const float*> parameters;
  for (const NodePtr& parameter : parameters_) {
    const Region held = region_of(blocks, *parameter);
    buffers.emplace_back(context.scratch, static_cast<size_t>(elements_of(held)) * sizeof(float));
    MOEC_TRY(read_floats(*parameter, held, buffers.back().floats(), context));
    parameters.push_back(buffers.back().floats());
  }
  MOEC_TRY(apply_rows(region, blocks, parameters, values.floats(), context.report));
  copy_strided(values.data(), to.data, scatter_walk(region, sizeof(float), to), sizeof(float));
  return {};
}

uint64_t BlockNode::scratch_bytes(uint64_t elements, const ReaderOptions& options) const {
  uint64_t held = elements * sizeof(float), reading = read_bytes(*child_, elements, options);
  for (const NodePtr& parameter : parameters_) {
    const auto all = static_cast<uint64_t>(parameter->type().elements());
    // A region touches at most one block per element, and at most all blocks.
    const uint64_t count = std::min(elements * (all / blocks_in(*parameter)), all);
    held += count * sizeof(float);
    reading = std::max(reading, read_bytes(*parameter, count, options));
  }
  return held + reading;
}

NodePtr BlockNode::slice(const SliceStep& step) const {
  const auto axis = static_cast<size_t>(step.axis);
  const int64_t begin = blocks_.phase[axis] + step.begin, last = begin + step.size - 1;
  const int64_t extent = blocks_.block[axis], first_block = begin / extent;
  Blocks blocks = blocks_;
  // The slice may begin within a block; the phase is the number of its elements before the slice.
  blocks.phase[axis] = begin % extent;
  std::vector<NodePtr> parameters;
  for (const NodePtr& parameter : parameters_)
    parameters.push_back(
        parameter->slice({step.axis, first_block, last / extent - first_block + 1}));
  return with(child_->slice(step), std::move(parameters), std::move(blocks));
}

NodePtr BlockNode::permute(const PermuteStep& step) const {
  Blocks blocks;
  for (int64_t axis : step.axes) {
    blocks.block.push_back(at(blocks_.block, axis));
    blocks.phase.push_back(at(blocks_.phase, axis));
  }
  std::vector<NodePtr> parameters;
  for (const NodePtr& parameter : parameters_) {
    // The axis for several values per block stays last.
    PermuteStep all = step;
    for (int64_t axis = std::ssize(step.axes); axis < parameter->type().rank(); ++axis)
      all.axes.push_back(axis);
    parameters.push_back(parameter->permute(all));
  }
  return with(child_->permute(step), std::move(parameters), std::move(blocks));
}

NodePtr BlockNode::reshape(const Dims& dims) const {
  Blocks blocks{Dims(dims.size(), 1), Dims(dims.size(), 0)};
  Dims counts = dims;
  for (const AxisGroup& group : axis_groups(type().dims, dims)) {
    const std::optional<size_t> blocked = blocked_axis(group);
    if (!blocked) continue;
    const int64_t size = type().dims[*blocked];
    size_t axis = group.new_begin;
    while (axis < group.new_end && dims[axis] != size) ++axis;
    if (axis == group.new_end || product(type().dims, group.old_begin, group.old_end) != size)
      return nullptr;
    blocks.block[axis] = blocks_.block[*blocked];
    blocks.phase[axis] = blocks_.phase[*blocked];
    // Includes partial blocks at both ends of a slice.
    counts[axis] = block_index(*blocked, size - 1) + 1;
  }
  std::vector<NodePtr> parameters;
  for (const NodePtr& parameter : parameters_) {
    Dims held = counts;
    const Dims& old = parameter->type().dims;
    held.insert(held.end(), old.begin() + type().rank(), old.end());
    parameters.push_back(reshape_node(parameter, held));
  }
  return with(reshape_node(child_, dims), std::move(parameters), std::move(blocks));
}

int64_t BlockNode::per_block(size_t parameter) const {
  const Dims& dims = parameters_[parameter]->type().dims;
  return product(dims, type().dims.size(), dims.size());
}

uint64_t BlockNode::blocks_in(const ViewNode& parameter) const {
  return static_cast<uint64_t>(product(parameter.type().dims, 0, type().dims.size()));
}

// Views the codes as a matrix: its columns lie along the last axis with several elements, its rows
// along all earlier axes. Adjacent rows may share a block.
std::optional<CodedRows> BlockNode::coded_rows() const {
  const Dims& dims = type().dims;
  const auto codes = child_->numbers();
  const bool shifted =
      std::any_of(blocks_.phase.begin(), blocks_.phase.end(), [](int64_t at) { return at != 0; });
  if (!codes || shifted || dims.empty()) return std::nullopt;
  size_t last = dims.size() - 1;
  while (last > 0 && dims[last] == 1) --last;
  CodedRows rows{.codes = *codes, .columns = dims[last]};
  rows.block_columns = std::min(blocks_.block[last], dims[last]);
  for (size_t axis = 0; axis < last; ++axis) {
    if (blocks_.block[axis] == 1 || dims[axis] == 1) continue;
    const bool is_inner = product(dims, axis + 1, last) == 1;
    // Rows of the matrix join several axes. Blocks of rows remain equal only if they do not cross
    // the end of the blocked axis.
    const bool divides = dims[axis] % blocks_.block[axis] == 0 || product(dims, 0, axis) == 1;
    if (!is_inner || !divides) return std::nullopt;
    rows.block_rows = blocks_.block[axis];
  }
  return rows;
}

// Returns the axis of the group along which several elements share a block; absent if there is
// none.
std::optional<size_t> BlockNode::blocked_axis(const AxisGroup& group) const {
  for (size_t axis = group.old_begin; axis < group.old_end; ++axis)
    if (blocks_.block[axis] > 1 && type().dims[axis] > 1) return axis;
  return std::nullopt;
}

int64_t BlockNode::block_index(size_t axis, int64_t index) const {
  return (blocks_.phase[axis] + index) / blocks_.block[axis];
}

Region BlockNode::blocks_of(const Region& region) const {
  Region blocks = region;
  for (size_t axis = 0; axis < blocks_.block.size(); ++axis) {
    const int64_t first = block_index(axis, region.begin[axis]);
    blocks.begin[axis] = first;
    blocks.size[axis] = block_index(axis, region.begin[axis] + region.size[axis] - 1) - first + 1;
  }
  return blocks;
}

// Returns the region of `parameter` for these blocks.
Region BlockNode::region_of(const Region& blocks, const ViewNode& parameter) const {
  Region region = blocks;
  for (int64_t axis = type().rank(); axis < parameter.type().rank(); ++axis) {
    region.begin.push_back(0);
    region.size.push_back(parameter.type().dims.at(axis));
  }
  return region;
}

Status BlockNode::apply_rows(const Region& region, const Region& blocks,
                             const std::vector<const float*>& parameters, float* values,
                             StreamReport& report) const {
  const Dims steps = row_major_steps(blocks.size, 1);
  const size_t rank = region.size.size(), last = rank == 0 ? 0 : rank - 1;
  const int64_t row = rank == 0 ? 1 : region.size[last];
  Dims at(rank, 0);
  for (int64_t done = 0, count = elements_of(region); done < count; done += row) {
    int64_t block = 0;
    for (size_t axis = 0; axis < last; ++axis)
      block +=
          (block_index(axis, region.begin[axis] + at[axis]) - blocks.begin[axis]) * steps[axis];
    MOEC_TRY(apply_row(region, block, parameters, values + done, report));
    for (size_t axis = last; axis-- > 0 && ++at[axis] == region.size[axis];) at[axis] = 0;
  }
  return {};
}

Status BlockNode::apply_row(const Region& region, int64_t block,
                            const std::vector<const float*>& parameters, float* values,
                            StreamReport& report) const {
  if (region.size.empty()) return apply({values, 1, block, true}, parameters, report);
  const size_t last = region.size.size() - 1;
  const int64_t extent = blocks_.block[last], row = region.size[last];
  if (extent == 1) return apply({values, row, block, false}, parameters, report);
  int64_t offset = (blocks_.phase[last] + region.begin[last]) % extent;
  for (int64_t i = 0; i < row; offset = 0, ++block) {
    const int64_t run = std::min(row - i, extent - offset);
    MOEC_TRY(apply({values + i, run, block, true}, parameters, report));
    i += run;
  }
  return {};
}

}  // namespace moec
