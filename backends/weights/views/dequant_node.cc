// Node that subtracts an offset from the elements of each block and multiplies them by a scale.
#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <optional>
#include <vector>

#include "backends/weights/views/convert.h"
#include "backends/weights/views/view_node.h"
#include "ir/base/at.h"

namespace moec {

namespace {

// Base class of nodes with parameters per block of elements: a scale, an offset, a table.
// Implements slices, permutes and reshapes of the blocks, and reads the parameters of a region.

class BlockNode : public ViewNode {
 public:
  // Element i of axis a belongs to block (i + phase[a]) / block[a]. The first axes of each
  // parameter count the blocks. A parameter with several values per block has one more axis.
  struct Blocks {
    Dims block, phase;
  };

  BlockNode(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks);

  Status read(const Region& region, const Destination& to, ReadContext& context) const override;
  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override;
  bool reorders() const override { return child_->reorders(); }
  NodePtr slice(const SliceStep& step) const override;
  NodePtr permute(const PermuteStep& step) const override;
  // Axes with blocks of a single element can be split and joined. An axis with larger blocks
  // cannot; only axes of size 1 can be added or dropped next to it.
  NodePtr reshape(const Dims& dims) const override;

 protected:
  // Returns the rows of codes; the derived class adds its parameters. Absent if the codes are not
  // consecutive numbers, or if the blocks are not whole blocks of a matrix.
  std::optional<CodedRows> coded_rows() const;
  std::optional<StoredNumbers> parameter(size_t index) const {
    return index < parameters_.size() ? parameters_[index]->numbers() : std::nullopt;
  }
  size_t parameter_count() const { return parameters_.size(); }

  // Elements of the region that are contiguous along the last axis. All elements belong to a single
  // block, or each to a separate block if blocks have one element along that axis.
  struct Run {
    float* values = nullptr;
    int64_t count = 0;
    int64_t block = 0;      // of the first element, as an index into the region's blocks
    bool one_block = true;  // else element i belongs to block `block` + i
  };
  // Applies the node to the values of the run, in place; `parameters` has the parameters of the
  // region's blocks.
  virtual Status apply(const Run& run, const std::vector<const float*>& parameters,
                       StreamReport& report) const = 0;
  // Returns the same kind of node over other inputs.
  virtual NodePtr with(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks) const = 0;

  // Returns the number of values per block in a parameter.
  int64_t per_block(size_t parameter) const;

 private:
  uint64_t blocks_in(const ViewNode& parameter) const;
  std::optional<size_t> blocked_axis(const AxisGroup& group) const;
  int64_t block_index(size_t axis, int64_t index) const;
  Region blocks_of(const Region& region) const;
  Region region_of(const Region& blocks, const ViewNode& parameter) const;
  Status apply_rows(const Region& region, const Region& blocks,
                    const std::vector<const float*>& parameters, float* values,
                    StreamReport& report) const;
  Status apply_row(const Region& region, int64_t block, const std::vector<const float*>& parameters,
                   float* values, StreamReport& report) const;

  NodePtr child_;
  std::vector<NodePtr> parameters_;
  Blocks blocks_;
};

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

class DequantNode : public BlockNode {
 public:
  using BlockNode::BlockNode;

  std::optional<CodedRows> coded() const override {
    auto rows = coded_rows();
    const auto scales = parameter(0), offsets = parameter(1);
    if (!rows || !scales || (parameter_count() > 1 && !offsets)) return std::nullopt;
    rows->scales = *scales;
    if (offsets) rows->offsets = *offsets;
    return rows;
  }

 protected:
  Status apply(const Run& run, const std::vector<const float*>& parameters,
               StreamReport& report) const override {
    const auto count = static_cast<size_t>(run.count);
    const float* scales = parameters[0] + run.block;
    if (parameters.size() > 1) subtract(run, parameters[1] + run.block);
    report.overflows +=
        run.one_block ? scale(*scales, run.values, count) : multiply(scales, run.values, count);
    return {};
  }

  NodePtr with(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks) const override {
    return std::make_shared<DequantNode>(std::move(child), std::move(parameters),
                                         std::move(blocks));
  }

 private:
  static void subtract(const Run& run, const float* offsets) {
    for (int64_t i = 0; i < run.count; ++i) run.values[i] -= run.one_block ? *offsets : offsets[i];
  }
};

}  // namespace

NodePtr dequant_node(NodePtr child, NodePtr scale, NodePtr offset, const Dims& block) {
  std::vector<NodePtr> parameters{std::move(scale)};
  if (offset) parameters.push_back(std::move(offset));
  return std::make_shared<DequantNode>(std::move(child), std::move(parameters),
                                       BlockNode::Blocks{block, Dims(block.size(), 0)});
}

// Node that replaces each element by an entry of its block's table.

namespace {

class LutNode : public BlockNode {
 public:
  using BlockNode::BlockNode;

  // Requires an entry for every possible code, because decode_rows() does not check the range of
  // codes.
  std::optional<CodedRows> coded() const override {
    auto rows = coded_rows();
    const auto table = parameter(0);
    if (!rows || !table || !rows->codes.are_indices(per_block(0))) return std::nullopt;
    rows->table = *table;
    rows->entries = per_block(0);
    return rows;
  }

 protected:
  Status apply(const Run& run, const std::vector<const float*>& parameters,
               StreamReport&) const override {
    const int64_t entries = per_block(0);
    const float* table = parameters[0] + run.block * entries;
    for (int64_t i = 0; i < run.count; ++i) {
      float& value = run.values[i];
      // The negation also rejects NaN.
      if (!(value >= 0 && value < static_cast<float>(entries)))
        return fail("weights.bad_index",
                    fmt::format("index {} is outside a table of {} entries", value, entries),
                    "download the file again");
      value = table[static_cast<int64_t>(value)];
      if (!run.one_block) table += entries;
    }
    return {};
  }

  NodePtr with(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks) const override {
    return std::make_shared<LutNode>(std::move(child), std::move(parameters), std::move(blocks));
  }
};

}  // namespace

NodePtr lut_node(NodePtr child, NodePtr table, const Dims& block) {
  return std::make_shared<LutNode>(std::move(child), std::vector<NodePtr>{std::move(table)},
                                   BlockNode::Blocks{block, Dims(block.size(), 0)});
}

}  // namespace moec
