#include "ir/graph/weight_view.h"

#include <algorithm>
#include <numeric>

#include "ir/base/at.h"
#include "ir/base/splitmix64.h"
#include "ir/graph/type.h"

namespace moec {
namespace {

bool in_range(int64_t axis, const Dims& dims) { return axis >= 0 && axis < std::ssize(dims); }

// The type of the first part, with the sizes of all parts summed along the axis. view_type() checks
// that the parts match.
Type joined_type(int64_t axis, const std::vector<WeightView>& parts) {
  if (parts.empty()) return {};
  Type joined = view_type(parts.front()).value_or(parts.front().source_type);
  if (!in_range(axis, joined.dims)) return joined;
  int64_t& size = joined.dims.at(axis);
  for (size_t i = 1; i < parts.size(); ++i) {
    auto part = view_type(parts[i]);
    if (!part || !in_range(axis, part->dims)) continue;
    // The limit keeps the sum within 64 bits; view_type() then refuses the type.
    size = std::min(kMaxElements + 1, size) + part->dims.at(axis);
  }
  return joined;
}

// Returns true if every value of `from` is a value of `to`.
bool widens_exactly(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::f8_e4m3) return is_float(to);
  return (from == DType::f16 || from == DType::bf16) && to == DType::f32;
}

// True if a step changes nothing on a view of this type.
struct ChangesNothing {
  const Type& type;
  bool operator()(const SliceStep& step) const {
    return in_range(step.axis, type.dims) && step.begin == 0 &&
           step.size == type.dims.at(step.axis);
  }
  bool operator()(const ReshapeStep& step) const { return step.dims == type.dims; }
  bool operator()(const PermuteStep& step) const {
    return std::ssize(step.axes) == type.rank() && is_identity(step.axes);
  }
  bool operator()(const CastStep& step) const { return step.dtype == type.dtype; }
  bool operator()(const ScaleStep& step) const { return step.factor == 1; }
  bool operator()(const DequantStep&) const { return false; }
  bool operator()(const UnpackStep&) const { return false; }
  bool operator()(const CenterStep&) const { return false; }
  bool operator()(const RemainderStep&) const { return false; }
  bool operator()(const LutStep&) const { return false; }
  bool operator()(const UnblockStep&) const { return false; }
  bool operator()(const BlockwiseStep&) const { return false; }
  bool operator()(const GatherStep&) const { return false; }
  bool operator()(const MapStep&) const { return false; }
};

// The single step equivalent to `last` followed by `next`, if there is one. `type` is the view's
// type before `last`.
std::optional<ViewStep> merged(const Type& type, const ViewStep& last, const ViewStep& next) {
  if (std::holds_alternative<ReshapeStep>(last) && std::holds_alternative<ReshapeStep>(next))
    return next;
  const auto* cast = std::get_if<CastStep>(&last);
  // The first of two merged casts must be exact. Otherwise two roundings would become one.
  if (cast && std::holds_alternative<CastStep>(next) && widens_exactly(type.dtype, cast->dtype))
    return next;
  const auto* first = std::get_if<PermuteStep>(&last);
  const auto* second = std::get_if<PermuteStep>(&next);
  if (!first || !second) return std::nullopt;
  PermuteStep both;
  // Axis i of the result is axis first[second[i]] of the view.
  for (int64_t axis : second->axes) both.axes.push_back(at(first->axes, axis));
  return both;
}

}  // namespace

int number_bits(Packing packing) {
  const PackedRun& run = packed_run(packing);
  return static_cast<int>(run.elements * dtype_bytes(run.dtype) * 8 / run.numbers);
}

int64_t unblocked_count(const UnblockStep& step) {
  const int64_t elements = block_format(step.type).elements;
  const bool each = step.part == UnblockPart::values || step.part == UnblockPart::codes;
  // Scales and zeros have one entry per group of codes; a block has one or more groups.
  return each ? elements : elements / block_format(step.type).codes->elements;
}

int64_t unpacked_count(Packing packing, int64_t elements) {
  const PackedRun run = packed_run(packing);
  return elements * run.numbers / run.elements;
}

WeightView tensor_view(std::string name, Type type) {
  return {TensorSource{std::move(name)}, std::move(type), {}};
}

WeightView splat_view(double value, Type type) { return {SplatSource{value}, std::move(type), {}}; }

WeightView seeded_view(uint64_t seed, Type type) {
  return {SeededSource{seed}, std::move(type), {}};
}

WeightView concat_view(int64_t axis, std::vector<WeightView> parts) {
  Type type = joined_type(axis, parts);
  return {ConcatSource{axis, std::move(parts)}, std::move(type), {}};
}

WeightView then(WeightView view, ViewStep step) {
  auto type = view_type(view);
  WeightView longer = view;
  longer.steps.push_back(step);
  // Keeps an ill-formed step, so that view_type() reports it.
  if (!type || !view_type(longer)) return longer;
  if (std::visit(ChangesNothing{*type}, step)) return view;
  if (view.steps.empty()) return longer;
  ViewStep last = std::move(view.steps.back());
  view.steps.pop_back();
  // The merged step can be without effect or merge with the previous step, hence the recursion.
  if (auto one = merged(*view_type(view), last, step)) return then(std::move(view), *one);
  return longer;
}

float seeded_element(uint64_t seed, uint64_t index) {
  // 24 random bits give multiples of 2^−23 in [−1, 1), which f32 represents exactly.
  return static_cast<float>(splitmix64(seed + index) >> 40) * 0x1p-23f - 1.0f;
}

// View is WeightView, or const WeightView if the step is const.
template <class View, class Step>
static std::vector<View*> collect_parameters(Step& step) {
  std::vector<View*> parameters;
  auto add = [&](auto& views) {
    for (View& view : views) parameters.push_back(&view);
  };
  if (auto* dequant = std::get_if<DequantStep>(&step)) {
    add(dequant->scale);
    add(dequant->offset);
  }
  if (auto* lut = std::get_if<LutStep>(&step)) add(lut->table);
  if (auto* blockwise = std::get_if<BlockwiseStep>(&step)) add(blockwise->operand);
  if (auto* gather = std::get_if<GatherStep>(&step)) add(gather->indices);
  return parameters;
}

std::vector<const WeightView*> parameters_of(const ViewStep& step) {
  return collect_parameters<const WeightView>(step);
}

std::vector<WeightView*> parameters_of(ViewStep& step) {
  return collect_parameters<WeightView>(step);
}

void for_each_tensor(const WeightView& view,
                     const std::function<void(const TensorSource&, const Type&)>& visit) {
  if (const auto* tensor = std::get_if<TensorSource>(&view.source))
    visit(*tensor, view.source_type);
  if (const auto* concat = std::get_if<ConcatSource>(&view.source))
    for (const WeightView& part : concat->parts) for_each_tensor(part, visit);
  // Parameters such as scales are views, which can also use tensors.
  for (const ViewStep& step : view.steps)
    for (const WeightView* parameter : parameters_of(step)) for_each_tensor(*parameter, visit);
}

}  // namespace moec
