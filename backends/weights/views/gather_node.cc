// Node that selects elements along an axis by a vector of indices.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/weights/views/pack_bits.h"
#include "backends/weights/views/view_node.h"

namespace moec {
namespace {

Dims gathered_dims(const NodePtr& child, size_t axis, const NodePtr& indices) {
  Dims dims = child->type().dims;
  dims[axis] = indices->type().dims[0];
  return dims;
}

class GatherNode : public ViewNode {
 public:
  GatherNode(NodePtr child, size_t axis, NodePtr indices)
      : ViewNode({child->type().dtype, gathered_dims(child, axis, indices)}),
        child_(std::move(child)),
        axis_(axis),
        indices_(std::move(indices)) {}

  // Reads the whole axis of the child for the other positions of the region.
  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    auto indices = context.scratch.take(static_cast<size_t>(region.size[axis_]) * sizeof(int32_t));
    MOEC_TRY(indices_->read_packed({{region.begin[axis_]}, {region.size[axis_]}}, indices.data(),
                                   context));
    Region held = region;
    held.begin[axis_] = 0;
    held.size[axis_] = child_->type().dims[axis_];
    auto values = context.scratch.take(static_cast<size_t>(elements_of(held)) * width());
    MOEC_TRY(child_->read_packed(held, values.data(), context));
    const Dims steps = row_major_steps(held.size, static_cast<int64_t>(width()));
    Walk others;
    for (size_t axis = 0; axis < steps.size(); ++axis)
      if (axis != axis_) others.push_back({region.size[axis], steps[axis], to.steps[axis]});
    for (int64_t i = 0; i < region.size[axis_]; ++i) {
      MOEC_ASSIGN(const int64_t index, checked_index(indices.data(), i));
      copy_strided(values.data() + index * steps[axis_], to.data + i * to.steps[axis_], others,
                   width());
    }
    return {};
  }

  // A region of C order has all sizes after the axis, or few positions along it (first_region()).
  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    uint64_t inner = 1;
    for (size_t axis = axis_ + 1; axis < type().dims.size(); ++axis)
      inner *= static_cast<uint64_t>(type().dims[axis]);
    const auto size = static_cast<uint64_t>(type().dims[axis_]);
    const uint64_t others =
        std::min(elements, inner) * std::max<uint64_t>(elements / (inner * size), 1);
    const uint64_t held = others * static_cast<uint64_t>(child_->type().dims[axis_]);
    const uint64_t indices = std::min(elements, size);
    return indices * sizeof(int32_t) + held * width() +
           std::max(child_->scratch_bytes(held, options),
                    indices_->scratch_bytes(indices, options));
  }

  bool reorders() const override { return child_->reorders(); }

  NodePtr slice(const SliceStep& step) const override {
    if (static_cast<size_t>(step.axis) == axis_)
      return gather_node(child_, axis_, indices_->slice({0, step.begin, step.size}));
    return gather_node(child_->slice(step), axis_, indices_);
  }

  NodePtr permute(const PermuteStep& step) const override {
    const auto moved = std::find(step.axes.begin(), step.axes.end(), static_cast<int64_t>(axis_));
    return gather_node(child_->permute(step), static_cast<size_t>(moved - step.axes.begin()),
                       indices_);
  }

  NodePtr reshape(const Dims&) const override { return nullptr; }

 private:
  Result<int64_t> checked_index(const std::byte* indices, int64_t position) const {
    const int64_t index = load<int32_t>(indices, static_cast<size_t>(position));
    const int64_t size = child_->type().dims[axis_];
    if (index >= 0 && index < size) return index;
    return fail("weights.bad_index", fmt::format("index {} is outside {} entries", index, size),
                "download the file again");
  }

  NodePtr child_;
  size_t axis_;
  NodePtr indices_;
};

}  // namespace

NodePtr gather_node(NodePtr child, size_t axis, NodePtr indices) {
  return std::make_shared<GatherNode>(std::move(child), axis, std::move(indices));
}

}  // namespace moec
