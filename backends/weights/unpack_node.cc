// The node that unpacks numbers of a few bits from the elements that hold them, run by run: a run
// is the fewest elements that hold whole numbers only.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/weights/convert.h"
#include "backends/weights/view_node.h"

namespace moec {
namespace {

constexpr int64_t kChunk = 2048;  // numbers that are unpacked at a time; whole runs

Dims unpacked_dims(const NodePtr& child, size_t axis, int64_t size) {
  Dims dims = child->type().dims;
  dims[axis] = size;
  return dims;
}

// Number i along `axis` is number `phase` + i of the child's elements along it. The phase is less
// than the numbers of a run.
class UnpackNode : public ViewNode {
 public:
  UnpackNode(NodePtr child, Packing packing, size_t axis, int64_t phase, int64_t size)
      : ViewNode({DType::f32, unpacked_dims(child, axis, size)}),
        child_(std::move(child)),
        packing_(packing),
        axis_(axis),
        phase_(phase),
        run_(packed_run(packing)) {}

  // The packed elements are read with the axis innermost, so that each row along it is contiguous.
  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    Region held = region;
    held.begin[axis_] = element_of(region.begin[axis_]);
    held.size[axis_] = elements_over(region.begin[axis_], region.size[axis_]);
    auto raw = context.scratch.take(static_cast<size_t>(elements_of(held)) * child_->width());
    const Dims steps = steps_with_axis_inside(held.size);
    MOEC_TRY(child_->read(held, {raw.data(), steps}, context));
    Walk rows;
    for (size_t axis = 0; axis < steps.size(); ++axis)
      if (axis != axis_) rows.push_back({region.size[axis], steps[axis], to.steps[axis]});
    const int64_t skip = (phase_ + region.begin[axis_]) % run_.numbers;
    return for_each_offset(rows, rows.size(), [&](int64_t from, int64_t at) -> Status {
      unpack_row(raw.data() + from, skip, region.size[axis_], to.data + at, to.steps[axis_]);
      return {};
    });
  }

  // In the worst case only one number of each run is requested.
  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    const uint64_t held = elements * static_cast<uint64_t>(run_.elements);
    return held * child_->width() + child_->scratch_bytes(held, options);
  }

  bool reorders() const override { return child_->reorders(); }

  NodePtr slice(const SliceStep& step) const override {
    if (static_cast<size_t>(step.axis) != axis_) return with(child_->slice(step), axis_);
    const SliceStep held{step.axis, element_of(step.begin), elements_over(step.begin, step.size)};
    return std::make_shared<UnpackNode>(child_->slice(held), packing_, axis_,
                                        (phase_ + step.begin) % run_.numbers, step.size);
  }

  NodePtr permute(const PermuteStep& step) const override {
    const auto moved = std::find(step.axes.begin(), step.axes.end(), static_cast<int64_t>(axis_));
    return with(child_->permute(step), static_cast<size_t>(moved - step.axes.begin()));
  }

  // The packed axis cannot be split or joined. Only axes of size 1 may be added or dropped next to
  // it.
  NodePtr reshape(const Dims& dims) const override {
    const int64_t size = type().dims[axis_];
    for (const AxisGroup& group : axis_groups(type().dims, dims)) {
      if (axis_ < group.old_begin || axis_ >= group.old_end) continue;
      int64_t product = 1;
      for (size_t axis = group.old_begin; axis < group.old_end; ++axis)
        product *= type().dims[axis];
      size_t axis = group.new_begin;
      while (axis < group.new_end && dims[axis] != size) ++axis;
      if (axis == group.new_end || product != size) return nullptr;
      Dims held = dims;
      held[axis] = child_->type().dims[axis_];
      return with(reshape_node(child_, held), axis);
    }
    return nullptr;
  }

 private:
  NodePtr with(NodePtr child, size_t axis) const {
    return std::make_shared<UnpackNode>(std::move(child), packing_, axis, phase_,
                                        type().dims[axis_]);
  }

  // The first element of the run that holds a number.
  int64_t element_of(int64_t number) const {
    return (phase_ + number) / run_.numbers * run_.elements;
  }
  // The elements from there on that hold all bits of `size` numbers.
  int64_t elements_over(int64_t begin, int64_t size) const {
    return elements_for((phase_ + begin) % run_.numbers + size);
  }
  int64_t elements_for(int64_t numbers) const {
    return (numbers * run_.elements + run_.numbers - 1) / run_.numbers;
  }

  // Row-major but for the axis, whose elements lie side by side.
  Dims steps_with_axis_inside(const Dims& sizes) const {
    Dims steps(sizes.size());
    auto step = static_cast<int64_t>(child_->width());
    steps[axis_] = step;
    step *= sizes[axis_];
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (axis == axis_) continue;
      steps[axis] = step;
      step *= sizes[axis];
    }
    return steps;
  }

  // `count` numbers after the first `skip`, to places `step` bytes apart.
  void unpack_row(const std::byte* from, int64_t skip, int64_t count, std::byte* to,
                  int64_t step) const {
    std::array<float, kChunk> numbers;
    for (; count > 0; skip = 0) {
      const int64_t taken = std::min(kChunk - skip, count);
      const int64_t elements = elements_for(skip + taken);
      unpack(packing_, from, static_cast<size_t>(elements), numbers.data());
      place(numbers.data() + skip, taken, to, step);
      from += elements * static_cast<int64_t>(child_->width());
      to += taken * step;
      count -= taken;
    }
  }

  static void place(const float* numbers, int64_t count, std::byte* to, int64_t step) {
    if (step == sizeof(float)) {
      std::memcpy(to, numbers, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * step, numbers + i, sizeof(float));
  }

  NodePtr child_;
  Packing packing_;
  size_t axis_;
  int64_t phase_;
  PackedRun run_;
};

}  // namespace

NodePtr unpack_node(NodePtr child, Packing packing) {
  const size_t axis = child->type().rank() - 1;
  const int64_t size = unpacked_count(packing, child->type().dims[axis]);
  return std::make_shared<UnpackNode>(std::move(child), packing, axis, 0, size);
}

}  // namespace moec
