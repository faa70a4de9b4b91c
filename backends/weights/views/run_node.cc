// Node for packed numbers, which are stored in runs of elements along an axis. For low-bit numbers,
// a run is the smallest number of elements that contains only whole numbers; for blocks of bytes,
// it is a block.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "backends/weights/views/convert.h"
#include "backends/weights/views/unblock.h"
#include "backends/weights/views/view_node.h"

namespace moec {
namespace {

constexpr int64_t kDecodeChunk = 2048;  // numbers per decode call; whole runs

// Decoding of runs of elements to numbers.
struct Runs {
  PackedRun run;
  // True if the first numbers of a run can be decoded from its first elements alone.
  bool divisible = false;
  // Decodes `elements` elements at `from` into numbers at `to`.
  std::function<void(const std::byte* from, int64_t elements, float* to)> decode;
  std::optional<Packing> packing;  // of numbers that are not in blocks
};

Dims unpacked_dims(const NodePtr& child, size_t axis, int64_t size) {
  Dims dims = child->type().dims;
  dims[axis] = size;
  return dims;
}

// Number i along `axis` is number `phase` + i of the child's elements along that axis. `phase` is
// less than the number of numbers per run.
class RunNode : public ViewNode {
 public:
  RunNode(NodePtr child, Runs runs, size_t axis, int64_t phase, int64_t size)
      : ViewNode({DType::f32, unpacked_dims(child, axis, size)}),
        child_(std::move(child)),
        runs_(std::move(runs)),
        axis_(axis),
        phase_(phase) {}

  // Reads the packed elements with the axis innermost, so that each row along it is contiguous.
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
    const int64_t skip = (phase_ + region.begin[axis_]) % runs_.run.numbers;
    return for_each_offset(rows, rows.size(), [&](int64_t from, int64_t at) -> Status {
      decode_row(raw.data() + from, skip, region.size[axis_], to.data + at, to.steps[axis_]);
      return {};
    });
  }

  std::optional<StoredNumbers> numbers() const override {
    const auto bytes = child_->numbers();
    if (!runs_.packing || !bytes || !fills_rows()) return std::nullopt;
    return StoredNumbers{bytes->at, *runs_.packing, phase_};
  }

  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    const uint64_t held = most_runs(elements) * static_cast<uint64_t>(runs_.run.elements);
    return held * child_->width() + child_->scratch_bytes(held, options);
  }

  bool reorders() const override { return child_->reorders(); }

  NodePtr slice(const SliceStep& step) const override {
    if (static_cast<size_t>(step.axis) != axis_) return with(child_->slice(step), axis_);
    const SliceStep held{step.axis, element_of(step.begin), elements_over(step.begin, step.size)};
    return std::make_shared<RunNode>(child_->slice(held), runs_, axis_,
                                     (phase_ + step.begin) % runs_.run.numbers, step.size);
  }

  NodePtr permute(const PermuteStep& step) const override {
    const auto moved = std::find(step.axes.begin(), step.axes.end(), static_cast<int64_t>(axis_));
    return with(child_->permute(step), static_cast<size_t>(moved - step.axes.begin()));
  }

  // The packed axis cannot be split or joined; only axes of size 1 can be added or dropped next to
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
    return std::make_shared<RunNode>(std::move(child), runs_, axis, phase_, type().dims[axis_]);
  }

  // Returns true if the numbers follow one another in C order: the packed axis is the last one, and
  // there is only one row or each row consists of whole runs.
  bool fills_rows() const {
    const Dims& dims = type().dims;
    const bool is_last = std::all_of(dims.begin() + static_cast<std::ptrdiff_t>(axis_) + 1,
                                     dims.end(), [](int64_t size) { return size == 1; });
    const bool whole = phase_ == 0 && dims[axis_] % runs_.run.numbers == 0;
    return is_last && (whole || dims[axis_] == type().elements());
  }

  // Returns the maximum number of runs that a region of `elements` elements touches. Regions are
  // boxes in C order: one position along the first axes, some along one axis, and all along the
  // axes after it.
  uint64_t most_runs(uint64_t elements) const {
    uint64_t inner = 1;
    for (size_t axis = axis_ + 1; axis < type().dims.size(); ++axis)
      inner *= static_cast<uint64_t>(type().dims[axis]);
    const auto size = static_cast<uint64_t>(type().dims[axis_]);
    const auto numbers = static_cast<uint64_t>(runs_.run.numbers);
    const uint64_t along = std::clamp<uint64_t>(elements / inner, 1, size);
    const uint64_t rows = std::max<uint64_t>(elements / (inner * size), 1);
    return std::min(elements, inner) * rows * ((along + 2 * numbers - 2) / numbers);
  }

  // Returns the first element of the run that contains a number.
  int64_t element_of(int64_t number) const {
    return (phase_ + number) / runs_.run.numbers * runs_.run.elements;
  }
  // Returns the number of elements, from element_of(begin), that contain all bits of `size`
  // numbers.
  int64_t elements_over(int64_t begin, int64_t size) const {
    return elements_for((phase_ + begin) % runs_.run.numbers + size);
  }
  int64_t elements_for(int64_t numbers) const {
    const PackedRun& run = runs_.run;
    if (!runs_.divisible) return (numbers + run.numbers - 1) / run.numbers * run.elements;
    return (numbers * run.elements + run.numbers - 1) / run.numbers;
  }

  // Row-major strides, except that axis_ is innermost.
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

  // Decodes `count` numbers after the first `skip`; writes them `step` bytes apart.
  void decode_row(const std::byte* from, int64_t skip, int64_t count, std::byte* to,
                  int64_t step) const {
    std::array<float, kDecodeChunk> numbers;
    for (; count > 0; skip = 0) {
      // Chunks end at whole runs, so only the first one has numbers to skip.
      const int64_t taken = std::min(kDecodeChunk - skip, count);
      const int64_t elements = elements_for(skip + taken);
      runs_.decode(from, elements, numbers.data());
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
  Runs runs_;
  size_t axis_;
  int64_t phase_;
};

NodePtr run_node(NodePtr child, int64_t size, Runs runs) {
  const size_t axis = child->type().dims.size() - 1;
  return std::make_shared<RunNode>(std::move(child), std::move(runs), axis, 0, size);
}

}  // namespace

NodePtr unpack_node(NodePtr child, Packing packing) {
  const int64_t size = unpacked_count(packing, child->type().dims.back());
  return run_node(std::move(child), size,
                  {packed_run(packing), true,
                   [packing](const std::byte* from, int64_t elements, float* to) {
                     unpack(packing, from, static_cast<size_t>(elements), to);
                   },
                   packing});
}

NodePtr unblock_node(NodePtr child, const UnblockStep& step) {
  const int64_t bytes = block_format(step.type).bytes, numbers = unblocked_count(step);
  const int64_t size = child->type().dims.back() / bytes * numbers;
  return run_node(std::move(child), size,
                  {{DType::u8, bytes, numbers},
                   false,
                   [step, bytes](const std::byte* from, int64_t elements, float* to) {
                     unblock(step, from, static_cast<size_t>(elements / bytes), to);
                   },
                   std::nullopt});
}

}  // namespace moec
