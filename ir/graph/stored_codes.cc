#include "ir/graph/stored_codes.h"

#include <algorithm>

#include "ir/graph/ops.h"

namespace moec {
namespace {

struct Coded {
  WeightView codes, scales;
  Dims block;
};

int64_t blocks_in(int64_t size, int64_t block) { return (size + block - 1) / block; }

// One step behind the codes; nothing if blocks do not follow it.
class AfterStep {
 public:
  AfterStep(Coded coded, Dims dims, DType dtype)
      : coded_(std::move(coded)), dims_(std::move(dims)), dtype_(dtype) {}

  std::optional<Coded> operator()(const SliceStep& slice) {
    const int64_t block = coded_.block.at(slice.axis), end = slice.begin + slice.size;
    if (slice.begin % block != 0 || (end % block != 0 && end != dims_.at(slice.axis)))
      return std::nullopt;
    return both(slice, SliceStep{slice.axis, slice.begin / block, blocks_in(slice.size, block)});
  }
  std::optional<Coded> operator()(const PermuteStep& permute) {
    Dims block;
    for (const int64_t axis : permute.axes) block.push_back(coded_.block.at(axis));
    coded_.block = std::move(block);
    return both(permute, permute);
  }
  // Axes of size 1 may come and go.
  std::optional<Coded> operator()(const ReshapeStep& reshape) {
    Dims block(reshape.dims.size(), 1), scales(reshape.dims.size(), 1);
    int64_t to = 0;
    for (int64_t from = 0; from < dims_.rank(); ++from) {
      if (dims_.at(from) == 1) continue;
      while (to < reshape.dims.rank() && reshape.dims.at(to) == 1) ++to;
      if (to == reshape.dims.rank() || reshape.dims.at(to) != dims_.at(from)) return std::nullopt;
      block.at(to) = coded_.block.at(from);
      scales.at(to++) = blocks_in(dims_.at(from), coded_.block.at(from));
    }
    coded_.block = std::move(block);
    return both(reshape, ReshapeStep{std::move(scales)});
  }
  // The last cast is the only one that rounds.
  std::optional<Coded> operator()(const CastStep& cast) {
    if (cast.dtype != dtype_ && cast.dtype != DType::f32) return std::nullopt;
    return std::move(coded_);
  }
  template <
      OneOf<ScaleStep, DequantStep, UnpackStep, CenterStep, RemainderStep, LutStep, UnblockStep>
          StepT>
  std::optional<Coded> operator()(const StepT&) {
    return std::nullopt;
  }

 private:
  std::optional<Coded> both(ViewStep of_codes, ViewStep of_scales) {
    coded_.codes = then(std::move(coded_.codes), std::move(of_codes));
    coded_.scales = then(std::move(coded_.scales), std::move(of_scales));
    return std::move(coded_);
  }

  Coded coded_;
  Dims dims_;
  DType dtype_;
};

std::optional<Coded> coded_in(const WeightView& view, DType dtype);

// The first steps of a view of one tensor: up to the one that multiplies by scales.
std::optional<Coded> decoded_first(const WeightView& view, size_t& steps) {
  WeightView codes{view.source, view.source_type, {}};
  bool unpacked = false;
  for (steps = 0; steps < view.steps.size(); ++steps) {
    const ViewStep& step = view.steps[steps];
    if (const auto* dequant = std::get_if<DequantStep>(&step)) {
      ++steps;
      if (!unpacked || !dequant->offset.empty()) return std::nullopt;
      return Coded{std::move(codes), then(dequant->scale.front(), CastStep{DType::f32}),
                   dequant->block};
    }
    const auto* unpack = std::get_if<UnpackStep>(&step);
    if (unpack && unpack->packing != Packing::i4_excess8) return std::nullopt;
    unpacked = unpacked || unpack;
    codes.steps.push_back(step);
  }
  return std::nullopt;
}

std::optional<Coded> joined(const ConcatSource& concat, DType dtype) {
  std::vector<WeightView> codes, scales;
  Dims block;
  for (const WeightView& part : concat.parts) {
    std::optional<Coded> coded = coded_in(part, dtype);
    if (!coded || (!codes.empty() && coded->block != block)) return std::nullopt;
    const auto type = view_type(part);
    const bool is_last = &part == &concat.parts.back();
    block = coded->block;
    if (!type || (!is_last && type->dims.at(concat.axis) % block.at(concat.axis) != 0))
      return std::nullopt;
    codes.push_back(std::move(coded->codes));
    scales.push_back(std::move(coded->scales));
  }
  return Coded{concat_view(concat.axis, std::move(codes)),
               concat_view(concat.axis, std::move(scales)), std::move(block)};
}

// `dtype` is the element type of the whole view.
std::optional<Coded> coded_in(const WeightView& view, DType dtype) {
  size_t steps = 0;
  const auto* concat = std::get_if<ConcatSource>(&view.source);
  std::optional<Coded> coded = concat ? joined(*concat, dtype) : decoded_first(view, steps);
  for (; coded && steps < view.steps.size(); ++steps) {
    const auto type = view_type(coded->codes);
    if (!type) return std::nullopt;
    coded = std::visit(AfterStep(std::move(*coded), type->dims, dtype), view.steps[steps]);
  }
  return coded;
}

}  // namespace

std::optional<StoredCodes> stored_codes(const WeightView& view) {
  const auto type = view_type(view);
  if (!type) return std::nullopt;
  std::optional<Coded> coded = coded_in(view, type->dtype);
  if (!coded) return std::nullopt;
  constexpr int64_t kBits = 4;
  return StoredCodes{std::move(coded->codes),
                     std::move(coded->scales),
                     {kBits, std::move(coded->block), false, true}};
}

bool decodes_stored(const WeightView& view) {
  if (const auto* concat = std::get_if<ConcatSource>(&view.source))
    if (std::any_of(concat->parts.begin(), concat->parts.end(), decodes_stored)) return true;
  return std::any_of(view.steps.begin(), view.steps.end(), [](const ViewStep& step) {
    return std::holds_alternative<DequantStep>(step) || std::holds_alternative<LutStep>(step) ||
           std::holds_alternative<UnblockStep>(step);
  });
}

}  // namespace moec
