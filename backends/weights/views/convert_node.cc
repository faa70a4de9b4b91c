// Node for casts, scales, remainders and functions, which change elements independently.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/weights/views/convert.h"
#include "backends/weights/views/view_node.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

constexpr size_t kChunk = 2048;  // elements per conversion

struct Rounding {
  std::optional<float> factor;
  DType dtype = DType::f32;
  std::optional<DType> remainder_of;  // replaces values by their rounding error in this type
  std::optional<MapFn> function = std::nullopt;
};

double mapped(MapFn function, double x) {
  switch (function) {
    case MapFn::neg_exp:
      return -std::exp(x);
    case MapFn::log_neg:
      return std::log(-x);
    case MapFn::plus_one:
      return x + 1;
    case MapFn::minus_one:
      break;
  }
  return x - 1;
}

// Returns the number of finite values that became infinite.
uint64_t map_values(MapFn function, float* values, size_t count) {
  uint64_t overflows = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto result = static_cast<float>(mapped(function, values[i]));
    overflows += std::isfinite(values[i]) && std::isinf(result) ? 1 : 0;
    values[i] = result;
  }
  return overflows;
}

void take_remainders(DType dtype, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float rounded = round_to(dtype, values[i]);
    // A value without a finite rounding has no rounding error that another weight could add back.
    values[i] = std::isfinite(rounded) ? values[i] - rounded : 0.0f;
  }
}

// Applies the roundings in sequence to elements of type `from`. Returns the number of finite values
// that became infinite.
uint64_t convert_chunk(DType from, const std::byte* in, size_t count,
                       const std::vector<Rounding>& roundings, std::byte* out) {
  std::array<float, kChunk> values;
  std::array<std::byte, kChunk * sizeof(float)> rounded;
  uint64_t overflows = 0;
  decode(from, in, count, values.data());
  for (size_t i = 0; i < roundings.size(); ++i) {
    const Rounding& rounding = roundings[i];
    if (rounding.factor) overflows += scale(*rounding.factor, values.data(), count);
    if (rounding.remainder_of) take_remainders(*rounding.remainder_of, values.data(), count);
    if (rounding.function) overflows += map_values(*rounding.function, values.data(), count);
    const bool last = i + 1 == roundings.size();
    // Intermediate values are f32, so rounding to f32 changes nothing.
    if (!last && rounding.dtype == DType::f32) continue;
    overflows += encode(rounding.dtype, values.data(), count, last ? out : rounded.data());
    if (!last) decode(rounding.dtype, rounded.data(), count, values.data());
  }
  return overflows;
}

class ConvertNode : public ViewNode {
 public:
  ConvertNode(NodePtr child, std::vector<Rounding> roundings)
      : ViewNode({roundings.back().dtype, child->type().dims}),
        child_(std::move(child)),
        roundings_(std::move(roundings)) {}

  Status read(const Region& region, const Destination& to, ReadContext& context) const override {
    const auto count = static_cast<size_t>(elements_of(region));
    const auto unit = static_cast<int64_t>(width());
    // lend() saves a copy: the conversion reads directly from the buffer of the file read.
    MOEC_ASSIGN(const std::byte* raw, child_->lend(region, context));
    std::optional<Scratch::Buffer> copied;
    if (raw == nullptr) {
      copied.emplace(context.scratch, count * child_->width());
      raw = copied->data();
      MOEC_TRY(child_->read_packed(region, copied->data(), context));
    }
    // The destination has no gaps, so the conversion writes to it directly.
    if (is_row_major(region, unit, to)) {
      context.report.overflows += convert(raw, count, to.data);
      return {};
    }
    auto converted = context.scratch.take(count * width());
    context.report.overflows += convert(raw, count, converted.data());
    copy_strided(converted.data(), to.data, scatter_walk(region, unit, to), width());
    return {};
  }

  // Widening to f32 is exact.
  std::optional<StoredNumbers> numbers() const override {
    return rounds_to(DType::f32) ? child_->numbers() : std::nullopt;
  }

  std::optional<CodedRows> coded() const override {
    auto rows = child_->coded();
    // decode_rows() rounds once, so a factor or a remainder cannot be expressed.
    if (!rows || !rounds_to(type().dtype)) return std::nullopt;
    rows->rounded = type().dtype;
    return rows;
  }

  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override {
    return elements * (child_->width() + width()) + child_->scratch_bytes(elements, options);
  }

  bool reorders() const override { return child_->reorders(); }

  NodePtr in_c_order() const override {
    NodePtr child = child_->in_c_order();
    return child ? with(std::move(child)) : nullptr;
  }

  NodePtr slice(const SliceStep& step) const override { return with(child_->slice(step)); }
  NodePtr permute(const PermuteStep& step) const override { return with(child_->permute(step)); }
  NodePtr reshape(const Dims& dims) const override { return with(reshape_node(child_, dims)); }

  NodePtr then(Rounding rounding) const {
    std::vector<Rounding> roundings = roundings_;
    roundings.push_back(rounding);
    return std::make_shared<ConvertNode>(child_, std::move(roundings));
  }

 private:
  // Returns true if the node only rounds its elements to `dtype`.
  bool rounds_to(DType dtype) const {
    const Rounding& only = roundings_.front();
    return roundings_.size() == 1 && !only.factor && !only.remainder_of && !only.function &&
           only.dtype == dtype;
  }

  NodePtr with(NodePtr child) const {
    return std::make_shared<ConvertNode>(std::move(child), roundings_);
  }

  uint64_t convert(const std::byte* in, size_t count, std::byte* out) const {
    uint64_t overflows = 0;
    for (size_t at = 0; at < count; at += kChunk)
      overflows += convert_chunk(child_->type().dtype, in + at * child_->width(),
                                 std::min(kChunk, count - at), roundings_, out + at * width());
    return overflows;
  }

  NodePtr child_;
  std::vector<Rounding> roundings_;  // not empty
};

}  // namespace

static NodePtr with_rounding(NodePtr child, const Rounding& rounding) {
  // Joins adjacent conversions into one node, which reads and writes each element once.
  if (const auto* convert = dynamic_cast<const ConvertNode*>(child.get()))
    return convert->then(rounding);
  return std::make_shared<ConvertNode>(std::move(child), std::vector<Rounding>{rounding});
}

NodePtr convert_node(NodePtr child, std::optional<double> factor, DType dtype) {
  Rounding rounding{std::nullopt, dtype, std::nullopt};
  if (factor) rounding.factor = static_cast<float>(*factor);
  return with_rounding(std::move(child), rounding);
}

NodePtr map_node(NodePtr child, MapFn function) {
  return with_rounding(std::move(child), {std::nullopt, DType::f32, std::nullopt, function});
}

NodePtr remainder_node(NodePtr child, DType dtype) {
  return with_rounding(std::move(child), {std::nullopt, DType::f32, dtype});
}

}  // namespace moec
