#include "ir/graph/stored_codes.h"

#include <algorithm>
#include <vector>

#include "ir/graph/ops.h"

namespace moec {

namespace {

// The codes and parameters of a prefix of a view's steps.
struct Coded {
  WeightView codes;
  std::vector<WeightView> parameters;  // scales and optional zeros, one per block
  Dims block;
  int64_t bits = 4;
};

int64_t blocks_in(int64_t size, int64_t block) { return (size + block - 1) / block; }

// Applies one step to the codes. Empty if the step does not move whole blocks.
class AfterStep {
 public:
  AfterStep(Coded coded, Dims dims, DType dtype)
      : coded_(std::move(coded)), dims_(std::move(dims)), dtype_(dtype) {}

  std::optional<Coded> operator()(const SliceStep& slice) {
    const int64_t block = coded_.block.at(slice.axis), end = slice.begin + slice.size;
    // Only the last block of the axis may be partial.
    if (slice.begin % block != 0 || (end % block != 0 && end != dims_.at(slice.axis)))
      return std::nullopt;
    // Parameters have one entry per block, so the range is divided by the block size.
    return both(slice, SliceStep{slice.axis, slice.begin / block, blocks_in(slice.size, block)});
  }
  std::optional<Coded> operator()(const PermuteStep& permute) {
    Dims block;
    for (const int64_t axis : permute.axes) block.push_back(coded_.block.at(axis));
    coded_.block = std::move(block);
    // The parameters have the same axes as the codes, so the same permutation applies.
    return both(permute, permute);
  }
  std::optional<Coded> operator()(const ReshapeStep& reshape) {
    return keeps_rows(reshape.dims) ? cut_rows(reshape) : move_ones(reshape);
  }
  // Casts to f32 are exact; only the last cast, to the view's type, may round.
  std::optional<Coded> operator()(const CastStep& cast) {
    if (cast.dtype != dtype_ && cast.dtype != DType::f32) return std::nullopt;
    return std::move(coded_);
  }
  template <OneOf<ScaleStep, DequantStep, UnpackStep, CenterStep, RemainderStep, LutStep,
                  UnblockStep, BlockwiseStep, GatherStep, MapStep>
                StepT>
  std::optional<Coded> operator()(const StepT&) {
    return std::nullopt;
  }

 private:
  // True if blocks lie along the last axis only and the step keeps this axis.
  bool keeps_rows(const Dims& dims) const {
    if (dims.empty() || dims_.empty() || dims.back() != dims_.back()) return false;
    for (int64_t axis = 0; axis + 1 < dims_.rank(); ++axis)
      if (coded_.block.at(axis) != 1) return false;
    return true;
  }
  std::optional<Coded> cut_rows(const ReshapeStep& reshape) {
    Dims block(reshape.dims.size(), 1), parameters = reshape.dims;
    block.back() = coded_.block.back();
    parameters.back() = blocks_in(dims_.back(), block.back());
    coded_.block = std::move(block);
    return both(reshape, ReshapeStep{std::move(parameters)});
  }
  // A reshape that only adds or removes axes of size 1.
  // Axes of size 1 have one block, so only the order of the other axes matters.
  std::optional<Coded> move_ones(const ReshapeStep& reshape) {
    Dims block(reshape.dims.size(), 1), parameters(reshape.dims.size(), 1);
    int64_t to = 0;
    for (int64_t from = 0; from < dims_.rank(); ++from) {
      if (dims_.at(from) == 1) continue;
      while (to < reshape.dims.rank() && reshape.dims.at(to) == 1) ++to;
      if (to == reshape.dims.rank() || reshape.dims.at(to) != dims_.at(from)) return std::nullopt;
      block.at(to) = coded_.block.at(from);
      parameters.at(to++) = blocks_in(dims_.at(from), coded_.block.at(from));
    }
    coded_.block = std::move(block);
    return both(reshape, ReshapeStep{std::move(parameters)});
  }
  std::optional<Coded> both(ViewStep of_codes, const ViewStep& of_parameters) {
    coded_.codes = then(std::move(coded_.codes), std::move(of_codes));
    for (WeightView& parameter : coded_.parameters)
      parameter = then(std::move(parameter), of_parameters);
    return std::move(coded_);
  }

  Coded coded_;
  Dims dims_;
  DType dtype_;
};

std::optional<Coded> coded_in(const WeightView& view, DType dtype);

// The codes and parameters of GGUF blocks, whose bytes are the view `bytes`.
std::optional<Coded> unblocked(const WeightView& bytes, BlockType type) {
  const std::optional<IntegerCodes> known = block_format(type).codes;
  const auto part = [&](UnblockPart which) { return then(bytes, UnblockStep{type, which}); };
  if (!known) return std::nullopt;
  Coded coded{part(UnblockPart::codes), {part(UnblockPart::scales)}, {}, known->bits};
  if (known->zeros) coded.parameters.push_back(part(UnblockPart::zeros));
  // The blocks lie along the last axis, which GGUF stores contiguously.
  const auto codes = view_type(coded.codes);
  if (!codes) return std::nullopt;
  coded.block = Dims(codes->dims.size(), 1);
  coded.block.back() = known->elements;
  return coded;
}

// Integers of 4 or 8 bits.
struct Integers {
  int64_t bits = 4;
  bool is_signed = true;
  bool operator==(const Integers&) const = default;
};

// The integers of a packing; empty if they have other bits, or are not integers.
std::optional<Integers> integers_of(Packing packing) {
  switch (packing) {
    case Packing::i4_excess8:
      return Integers{4, true};
    case Packing::u4_i32:
    case Packing::u4_awq:
      return Integers{4, false};
    case Packing::u8_i32:
      return Integers{8, false};
    default:
      return std::nullopt;
  }
}

// The integers that a step unpacks or takes from GGUF blocks; empty if it does neither.
std::optional<Integers> integers_of(const ViewStep& step) {
  if (const auto* unpack = std::get_if<UnpackStep>(&step)) return integers_of(unpack->packing);
  const auto* blocks = std::get_if<UnblockStep>(&step);
  if (!blocks || blocks->part != UnblockPart::codes) return std::nullopt;
  const auto known = block_format(blocks->type).codes;
  return known ? std::optional(Integers{known->bits, true}) : std::nullopt;
}

// The integers of a view that unpacks once; empty for other views.
std::optional<Integers> integers_of(const WeightView& view) {
  std::optional<Integers> found;
  if (const auto* concat = std::get_if<ConcatSource>(&view.source)) {
    found = integers_of(concat->parts.front());
    for (const WeightView& part : concat->parts)
      if (integers_of(part) != found) return std::nullopt;
  }
  for (const ViewStep& step : view.steps) {
    if (!std::holds_alternative<UnpackStep>(step) && !std::holds_alternative<UnblockStep>(step))
      continue;
    if (found) return std::nullopt;
    found = integers_of(step);
    if (!found) return std::nullopt;
  }
  return found;
}

// Subtracts the middle of the range of unsigned integers from each.
WeightView signed_codes(WeightView codes, int64_t bits) {
  const Dims all = view_type(codes)->dims;
  const Type one{DType::f32, Dims(all.size(), 1)};
  const auto excess = static_cast<double>(int64_t{1} << (bits - 1));
  return then(std::move(codes), DequantStep{all, {splat_view(1, one)}, {splat_view(excess, one)}});
}

// True if the view has this value in each element.
bool is_constant(const WeightView& view, double value) {
  const auto* splat = std::get_if<SplatSource>(&view.source);
  return splat && splat->value == value &&
         std::none_of(view.steps.begin(), view.steps.end(), [](const ViewStep& step) {
           return !std::holds_alternative<SliceStep>(step) &&
                  !std::holds_alternative<PermuteStep>(step) &&
                  !std::holds_alternative<ReshapeStep>(step);
         });
}

// The codes, scales and zeros of a step that decodes integers. Signed integers have no offset.
// Unsigned integers have one: a zero per block, or the middle of their range.
std::optional<Coded> dequantized(WeightView codes, const DequantStep& step) {
  const auto integers = integers_of(codes);
  const bool has_offset = !step.offset.empty();
  if (!integers || integers->is_signed == has_offset) return std::nullopt;
  // A file cannot store a scale per element.
  if (std::all_of(step.block.begin(), step.block.end(), [](int64_t size) { return size == 1; }))
    return std::nullopt;
  Coded coded{std::move(codes),
              {then(step.scale.front(), CastStep{DType::f32})},
              step.block,
              integers->bits};
  if (!has_offset) return coded;
  coded.codes = signed_codes(std::move(coded.codes), coded.bits);
  const auto middle = static_cast<double>(int64_t{1} << (coded.bits - 1));
  if (is_constant(step.offset.front(), middle)) return coded;
  // No file stores zeros of 8-bit codes.
  if (coded.bits == 8) return std::nullopt;
  coded.parameters.push_back(then(step.offset.front(), CastStep{DType::f32}));
  return coded;
}

// Reads the first steps of a view, up to the step that multiplies by scales. Sets `steps` to their
// number.
std::optional<Coded> decoded_first(const WeightView& view, size_t& steps) {
  WeightView codes{view.source, view.source_type, {}};
  for (steps = 0; steps < view.steps.size(); ++steps) {
    const ViewStep& step = view.steps[steps];
    if (const auto* dequant = std::get_if<DequantStep>(&step)) {
      ++steps;
      return dequantized(std::move(codes), *dequant);
    }
    const auto* blocks = std::get_if<UnblockStep>(&step);
    if (blocks && blocks->part == UnblockPart::values) {
      ++steps;
      return integers_of(codes) ? std::nullopt : unblocked(codes, blocks->type);
    }
    codes.steps.push_back(step);
  }
  return std::nullopt;
}

bool fit(const Coded& first, const Coded& next) {
  return first.block == next.block && first.bits == next.bits &&
         first.parameters.size() == next.parameters.size();
}

std::optional<Coded> joined(const ConcatSource& concat, DType dtype) {
  std::vector<Coded> parts;
  // All parts must have the same encoding, because the joined weight has a single one.
  for (const WeightView& part : concat.parts) {
    std::optional<Coded> coded = coded_in(part, dtype);
    if (!coded || (!parts.empty() && !fit(parts.front(), *coded))) return std::nullopt;
    const auto type = view_type(part);
    const bool is_last = &part == &concat.parts.back();
    // Only the last part may end in a partial block, because blocks cannot cross parts.
    if (!type || (!is_last && type->dims.at(concat.axis) % coded->block.at(concat.axis) != 0))
      return std::nullopt;
    parts.push_back(std::move(*coded));
  }
  const auto join = [&](auto view_of) {
    std::vector<WeightView> views;
    for (Coded& part : parts) views.push_back(std::move(view_of(part)));
    return concat_view(concat.axis, std::move(views));
  };
  Coded whole{join([](Coded& part) -> WeightView& { return part.codes; }),
              {},
              parts.front().block,
              parts.front().bits};
  for (size_t i = 0; i < parts.front().parameters.size(); ++i)
    whole.parameters.push_back(
        join([i](Coded& part) -> WeightView& { return part.parameters[i]; }));
  return whole;
}

// `dtype` is the element type of the whole view.
std::optional<Coded> coded_in(const WeightView& view, DType dtype) {
  size_t steps = 0;
  const auto* concat = std::get_if<ConcatSource>(&view.source);
  std::optional<Coded> coded = concat ? joined(*concat, dtype) : std::nullopt;
  // The parts of a join may be codes whose scales follow it.
  if (!coded) coded = decoded_first(view, steps);
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
  const bool zeros = coded->parameters.size() > 1;
  StoredCodes stored{std::move(coded->codes),
                     std::move(coded->parameters.front()),
                     {},
                     {coded->bits, std::move(coded->block), zeros, true}};
  // With zeros there are two parameters, and the zeros are the second one.
  if (zeros) stored.zeros = std::move(coded->parameters.back());
  return stored;
}

WeightView values_of(const StoredCodes& stored) {
  const Dims& block = stored.encoding.block;
  DequantStep decode{block, {stored.scales}, {}};
  WeightView codes = stored.codes;
  if (stored.zeros) {
    // Zero points refer to unsigned codes. Subtracting the offset −2^(bits − 1) converts a signed
    // code to an unsigned code.
    const Type one{DType::f32, Dims(block.size(), 1)};
    const auto excess = static_cast<double>(int64_t{1} << (stored.encoding.bits - 1));
    const Dims all = view_type(codes)->dims;
    codes =
        then(std::move(codes), DequantStep{all, {splat_view(1, one)}, {splat_view(-excess, one)}});
    decode.offset = {*stored.zeros};
  }
  return then(std::move(codes), std::move(decode));
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
