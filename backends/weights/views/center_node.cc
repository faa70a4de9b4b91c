// Node that subtracts the median of a whole view from its elements.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/weights/views/convert.h"
#include "backends/weights/views/view_node.h"

namespace moec {
namespace {

Status read_numbers(const ViewNode& node, const Region& region, float* to, ReadContext& context) {
  const auto count = static_cast<size_t>(elements_of(region));
  auto raw = context.scratch.take(count * node.width());
  MOEC_TRY(node.read_packed(region, raw.data(), context));
  decode(node.type().dtype, raw.data(), count, to);
  return {};
}

// Returns the lower median of the finite numbers; 0 if there are none.
float median_of(std::vector<float> numbers) {
  // NaN has no order, which nth_element() requires.
  std::erase_if(numbers, [](float x) { return !std::isfinite(x); });
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + (std::ssize(numbers) - 1) / 2;
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

class CenterNode : public ViewNode {
 public:
  CenterNode(NodePtr child, NodePtr whole)
      : ViewNode({DType::f32, child->type().dims}),
        child_(std::move(child)),
        whole_(std::move(whole)) {}

  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    // The median is computed per call and not stored: nodes are immutable and shared among threads.
    MOEC_ASSIGN(const float median, read_median(context));
    const auto count = static_cast<size_t>(elements_of(region));
    auto values = context.scratch.take(count * sizeof(float));
    MOEC_TRY(read_numbers(*child_, region, values.floats(), context));
    for (size_t i = 0; i < count; ++i) {
      const float centered = values.floats()[i] - median;
      if (std::isfinite(values.floats()[i]) && !std::isfinite(centered)) ++context.report.overflows;
      values.floats()[i] = centered;
    }
    copy_strided(values.data(), to.data, scatter_walk(region, sizeof(float), to), sizeof(float));
    return {};
  }

  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    const auto all = static_cast<uint64_t>(whole_->type().elements());
    const auto held = [&](const ViewNode& node, uint64_t count) {
      return count * (sizeof(float) + node.width()) + node.scratch_bytes(count, options);
    };
    // The buffers for the median are freed before the elements of the region are read.
    return std::max(2 * sizeof(float) * all + held(*whole_, all), held(*child_, elements));
  }

  bool reorders() const override { return child_->reorders(); }

  // `whole_` is not changed: the median covers all elements of the original view.
  NodePtr slice(const SliceStep& step) const override { return with(child_->slice(step)); }
  NodePtr permute(const PermuteStep& step) const override { return with(child_->permute(step)); }
  NodePtr reshape(const Dims& dims) const override { return with(reshape_node(child_, dims)); }

 private:
  NodePtr with(NodePtr child) const { return center_node(std::move(child), whole_); }

  // Restores the overflow count after reading: overflows are counted when elements are delivered,
  // not when the median is computed.
  Result<float> read_median(ReadContext& context) const {
    const uint64_t overflows = context.report.overflows;
    std::vector<float> numbers(static_cast<size_t>(whole_->type().elements()));
    MOEC_TRY(read_numbers(*whole_, whole_region(whole_->type().dims), numbers.data(), context));
    context.report.overflows = overflows;
    return median_of(std::move(numbers));
  }

  NodePtr child_, whole_;
};

}  // namespace

NodePtr center_node(NodePtr child, NodePtr whole) {
  return std::make_shared<CenterNode>(std::move(child), std::move(whole));
}

}  // namespace moec
