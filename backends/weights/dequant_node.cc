// The node that multiplies blocks of elements by scales.
#include <algorithm>
#include <optional>

#include "backends/weights/convert.h"
#include "backends/weights/view_node.h"
#include "ir/base/at.h"

namespace moec {
namespace {

class DequantNode : public ViewNode {
 public:
  DequantNode(NodePtr child, NodePtr scale, Dims block, Dims phase)
      : ViewNode({DType::f32, child->type().dims}),
        child_(std::move(child)),
        scale_(std::move(scale)),
        block_(std::move(block)),
        phase_(std::move(phase)) {}

  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    const auto count = static_cast<size_t>(elements_of(region));
    auto values = context.scratch.take(count * sizeof(float));
    MOEC_TRY(read_floats(*child_, region, values.floats(), context));
    const Region blocks = blocks_of(region);
    const auto block_count = static_cast<size_t>(elements_of(blocks));
    auto scales = context.scratch.take(block_count * sizeof(float));
    MOEC_TRY(read_floats(*scale_, blocks, scales.floats(), context));
    multiply(region, blocks, scales.floats(), values.floats(), context.report);
    copy_strided(values.data(), to.data, scatter_walk(region, sizeof(float), to), sizeof(float));
    return {};
  }

  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    const uint64_t scales = std::min(elements, static_cast<uint64_t>(scale_->type().elements()));
    const uint64_t child = elements * raw_bytes(*child_) + child_->scratch_bytes(elements, options);
    const uint64_t scale =
        scales * (sizeof(float) + raw_bytes(*scale_)) + scale_->scratch_bytes(scales, options);
    return elements * sizeof(float) + std::max(child, scale);
  }

  bool reorders() const override { return child_->reorders(); }

  NodePtr slice(const SliceStep& step) const override {
    const auto axis = static_cast<size_t>(step.axis);
    const int64_t begin = phase_[axis] + step.begin, last = begin + step.size - 1;
    const int64_t first_block = begin / block_[axis];
    Dims phase = phase_;
    phase[axis] = begin % block_[axis];
    return dequant_node(
        child_->slice(step),
        scale_->slice({step.axis, first_block, last / block_[axis] - first_block + 1}), block_,
        std::move(phase));
  }

  NodePtr permute(const PermuteStep& step) const override {
    Dims block, phase;
    for (int64_t axis : step.axes) {
      block.push_back(at(block_, axis));
      phase.push_back(at(phase_, axis));
    }
    return dequant_node(child_->permute(step), scale_->permute(step), std::move(block),
                        std::move(phase));
  }

  // Axes along which each element has its own scale may be split and joined. An axis with blocks of
  // several elements must stay as it is; only axes of size 1 may be added or dropped beside it.
  NodePtr reshape(const Dims& dims) const override {
    Dims block(dims.size(), 1), phase(dims.size(), 0), scale_dims = dims;
    for (const AxisGroup& group : axis_groups(type().dims, dims)) {
      const std::optional<size_t> blocked = blocked_axis(group);
      if (!blocked) continue;
      const int64_t size = type().dims[*blocked];
      const auto begin = dims.begin() + static_cast<std::ptrdiff_t>(group.new_begin);
      const auto end = dims.begin() + static_cast<std::ptrdiff_t>(group.new_end);
      const auto same = std::find(begin, end, size);
      if (same == end || group_product(group) != size) return nullptr;
      const auto axis = static_cast<size_t>(same - dims.begin());
      block[axis] = block_[*blocked];
      phase[axis] = phase_[*blocked];
      scale_dims[axis] = scale_->type().dims[*blocked];
    }
    return dequant_node(reshape_node(child_, dims), reshape_node(scale_, scale_dims),
                        std::move(block), std::move(phase));
  }

 private:
  // The bytes of an element before it is decoded; 0 if it needs no decoding.
  static uint64_t raw_bytes(const ViewNode& node) {
    return node.type().dtype == DType::f32 ? 0 : node.width();
  }

  // The axis of the group along which several elements share a scale; nothing if there is none.
  std::optional<size_t> blocked_axis(const AxisGroup& group) const {
    for (size_t axis = group.old_begin; axis < group.old_end; ++axis)
      if (block_[axis] > 1 && type().dims[axis] > 1) return axis;
    return std::nullopt;
  }

  int64_t group_product(const AxisGroup& group) const {
    int64_t product = 1;
    for (size_t axis = group.old_begin; axis < group.old_end; ++axis) product *= type().dims[axis];
    return product;
  }

  static Status read_floats(const ViewNode& node, const Region& region, float* to,
                            ReadContext& context) {
    if (node.type().dtype == DType::f32)
      return node.read_packed(region, reinterpret_cast<std::byte*>(to), context);
    const auto count = static_cast<size_t>(elements_of(region));
    auto raw = context.scratch.take(count * node.width());
    MOEC_TRY(node.read_packed(region, raw.data(), context));
    decode(node.type().dtype, raw.data(), count, to);
    return {};
  }

  int64_t block_index(size_t axis, int64_t index) const {
    return (phase_[axis] + index) / block_[axis];
  }

  Region blocks_of(const Region& region) const {
    Region blocks = region;
    for (size_t axis = 0; axis < block_.size(); ++axis) {
      blocks.begin[axis] = block_index(axis, region.begin[axis]);
      blocks.size[axis] =
          block_index(axis, region.begin[axis] + region.size[axis] - 1) - blocks.begin[axis] + 1;
    }
    return blocks;
  }

  // Goes along the last axis block by block; all elements of a block have the same scale.
  void multiply(const Region& region, const Region& blocks, const float* scales, float* values,
                StreamReport& report) const {
    const Dims steps = row_major_steps(blocks.size, 1);
    const size_t rank = region.size.size(), last = rank == 0 ? 0 : rank - 1;
    const int64_t row = rank == 0 ? 1 : region.size[last];
    Dims at(rank, 0);
    for (int64_t done = 0, count = elements_of(region); done < count; done += row) {
      const float* row_scales = scales;
      for (size_t axis = 0; axis < last; ++axis)
        row_scales +=
            (block_index(axis, region.begin[axis] + at[axis]) - blocks.begin[axis]) * steps[axis];
      report.overflows += multiply_row(region, row_scales, values + done, row);
      for (size_t axis = last; axis-- > 0 && ++at[axis] == region.size[axis];) at[axis] = 0;
    }
  }

  uint64_t multiply_row(const Region& region, const float* scales, float* values,
                        int64_t row) const {
    if (region.size.empty()) return scale(*scales, values, 1);
    const size_t last = block_.size() - 1;
    if (block_[last] == 1) return moec::multiply(scales, values, static_cast<size_t>(row));
    uint64_t overflows = 0;
    int64_t offset = (phase_[last] + region.begin[last]) % block_[last];
    for (int64_t i = 0; i < row; offset = 0) {
      const int64_t run = std::min(row - i, block_[last] - offset);
      overflows += scale(*scales++, values + i, static_cast<size_t>(run));
      i += run;
    }
    return overflows;
  }

  NodePtr child_, scale_;
  Dims block_, phase_;
};

}  // namespace

NodePtr dequant_node(NodePtr child, NodePtr scale, Dims block, Dims phase) {
  return std::make_shared<DequantNode>(std::move(child), std::move(scale), std::move(block),
                                       std::move(phase));
}

}  // namespace moec
