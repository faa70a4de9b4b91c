// The type rules of weight views: constraints view.c1 … view.c17 of ir/OPS.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ir/graph/ops.h"
#include "ir/graph/shown.h"
#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {
namespace {

Result<Type> nested_type(const WeightView& view, size_t depth);

template <class... Args>
Status require(bool condition, std::string_view code, fmt::format_string<Args...> message,
               Args&&... args) {
  if (condition) return {};
  return fail(std::string(code), fmt::format(message, std::forward<Args>(args)...));
}

bool good_sizes(const Dims& dims) { return dims.size() <= kMaxRank && checked_elements(dims); }

Status check_axis(std::string_view code, int64_t axis, const Type& type) {
  return require(axis >= 0 && axis < type.rank(), code, "axis {} is outside the rank of {}", axis,
                 shown(type));
}

bool holds_reals(DType dtype) { return is_float(dtype) || dtype == DType::f8_e4m3; }

// ---- Sources -----------------------------------------------------------------------------------

Status check_source(const TensorSource&, const Type&, size_t) { return {}; }

Status check_source(const SplatSource& source, const Type& type, size_t) {
  return require(is_float(type.dtype) && !std::isnan(source.value), "view.c9",
                 "a splat holds a number in a float type, got {} in {}", source.value, shown(type));
}

Status check_source(const SeededSource&, const Type& type, size_t) {
  return require(is_float(type.dtype), "view.c9", "seeded elements need a float type, got {}",
                 shown(type));
}

Status add_part(Type& joined, const Type& part, int64_t axis) {
  bool agree = part.dtype == joined.dtype && part.rank() == joined.rank();
  for (int64_t i = 0; agree && i < part.rank(); ++i)
    agree = i == axis || part.dims.at(i) == joined.dims.at(i);
  MOEC_TRY(require(agree, "view.c2", "parts of a concat along axis {} do not match: {} and {}",
                   axis, shown(joined), shown(part)));
  // Each part has at most kMaxElements, so one addition cannot overflow.
  joined.dims.at(axis) += part.dims.at(axis);
  return require(good_sizes(joined.dims), "view.c1", "the joined type {} is too large",
                 shown(joined));
}

Status check_source(const ConcatSource& source, const Type& type, size_t depth) {
  MOEC_TRY(require(!source.parts.empty(), "view.c2", "a concat needs at least one part"));
  Type joined;
  // A part can contain further views, so its depth is one more.
  for (size_t i = 0; i < source.parts.size(); ++i) {
    MOEC_ASSIGN(Type part, nested_type(source.parts[i], depth + 1));
    if (i > 0) {
      MOEC_TRY(add_part(joined, part, source.axis));
      continue;
    }
    joined = part;
    MOEC_TRY(check_axis("view.c2", source.axis, joined));
  }
  // `type` was computed when the view was built or read; it must match the parts.
  return require(joined == type, "view.c2", "the joined parts have type {}, the view states {}",
                 shown(joined), shown(type));
}

// ---- Steps: each replaces `type` by the type of its result -------------------------------------

Status apply_step(const SliceStep& step, Type& type, size_t) {
  MOEC_TRY(check_axis("view.c3", step.axis, type));
  int64_t& extent = type.dims.at(step.axis);
  // Subtracts, because begin + size could overflow.
  MOEC_TRY(require(step.begin >= 0 && step.size >= 1 && step.begin <= extent - step.size, "view.c3",
                   "slice [{}, {} + {}) is outside extent {}", step.begin, step.begin, step.size,
                   extent));
  extent = step.size;
  return {};
}

Status apply_step(const ReshapeStep& step, Type& type, size_t) {
  MOEC_TRY(require(good_sizes(step.dims) && *checked_elements(step.dims) == type.elements(),
                   "view.c4", "{} does not hold the elements of {}", shown(step.dims),
                   shown(type)));
  type.dims = step.dims;
  return {};
}

Status apply_step(const PermuteStep& step, Type& type, size_t) {
  // is_permutation() also checks the rank, so the axes below exist.
  MOEC_TRY(require(is_permutation(step.axes, type.rank()), "view.c5",
                   "[{}] is not a permutation of the axes of {}", fmt::join(step.axes, ","),
                   shown(type)));
  Dims dims;
  for (int64_t axis : step.axes) dims.push_back(type.dims.at(axis));
  type.dims = std::move(dims);
  return {};
}

Status apply_step(const CastStep& step, Type& type, size_t) {
  // A cast can read f8_e4m3 but not produce it.
  MOEC_TRY(require(holds_reals(type.dtype) && is_float(step.dtype), "view.c6",
                   "a cast converts f32, f16, bf16 or f8_e4m3 to f32, f16 or bf16, got {} to "
                   "{}",
                   dtype_name(type.dtype), dtype_name(step.dtype)));
  type.dtype = step.dtype;
  return {};
}

Status apply_step(const ScaleStep& step, Type& type, size_t) {
  return require(is_float(type.dtype) && std::isfinite(step.factor), "view.c7",
                 "scale needs a float type and a finite factor, got {} and {}", shown(type),
                 step.factor);
}

// Number of blocks along each axis.
Dims block_counts(const Type& type, const Dims& block) {
  Dims counts;
  for (int64_t i = 0; i < type.rank(); ++i)
    // The usual (size + block − 1) / block could overflow for a large block.
    counts.push_back((type.dims.at(i) - 1) / block.at(i) + 1);
  return counts;
}

bool has_blocks(const Type& type, const Dims& block) {
  return block.rank() == type.rank() &&
         std::all_of(block.begin(), block.end(), [](int64_t extent) { return extent >= 1; });
}

Status check_parameter(const WeightView& view, const Dims& dims, const DequantStep& step,
                       const Type& type, size_t depth) {
  MOEC_ASSIGN(Type found, nested_type(view, depth + 1));
  return require(is_float(found.dtype) && found.dims == dims, "view.c8",
                 "{} in blocks of {} needs float scales of sizes {}, got {}", shown(type),
                 shown(step.block), shown(dims), shown(found));
}

Status apply_step(const DequantStep& step, Type& type, size_t depth) {
  const bool good =
      step.scale.size() == 1 && step.offset.size() <= 1 && has_blocks(type, step.block);
  MOEC_TRY(require(good && holds_reals(type.dtype), "view.c8",
                   "dequant needs one scale, at most one offset and one positive block size per "
                   "axis of a float or f8_e4m3 view, got {} for {}",
                   shown(step.block), shown(type)));
  const Dims blocks = block_counts(type, step.block);
  MOEC_TRY(check_parameter(step.scale.front(), blocks, step, type, depth));
  for (const WeightView& offset : step.offset)
    MOEC_TRY(check_parameter(offset, blocks, step, type, depth));
  type.dtype = DType::f32;
  return {};
}

Status apply_step(const UnpackStep& step, Type& type, size_t) {
  const PackedRun run = packed_run(step.packing);
  Type unpacked{DType::f32, type.dims};
  if (!unpacked.dims.empty())
    unpacked.dims.back() = unpacked_count(step.packing, unpacked.dims.back());
  MOEC_TRY(require(type.dtype == run.dtype && type.rank() > 0 && good_sizes(unpacked.dims),
                   "view.c10", "unpack({}) requires a view of {} with at least one axis, got {}",
                   enum_name(step.packing), dtype_name(run.dtype), shown(type)));
  type = std::move(unpacked);
  return {};
}

Status apply_step(const LutStep& step, Type& type, size_t depth) {
  MOEC_TRY(
      require(step.table.size() == 1 && has_blocks(type, step.block) && type.dtype == DType::f32,
              "view.c13",
              "lut needs one table and one positive block size per axis of an f32 view, "
              "got {} for {}",
              shown(step.block), shown(type)));
  MOEC_ASSIGN(Type table, nested_type(step.table.front(), depth + 1));
  Dims blocks = block_counts(type, step.block);
  // Size 0 stands for a table without axes and matches no table.
  blocks.push_back(table.dims.empty() ? 0 : table.dims.back());
  MOEC_TRY(
      require(is_float(table.dtype) && table.dims == blocks, "view.c13",
              "{} in blocks of {} needs a float table with sizes {} and a last axis of entries, "
              "got {}",
              shown(type), shown(step.block), shown(block_counts(type, step.block)), shown(table)));
  return {};
}

Status apply_step(const BlockwiseStep& step, Type& type, size_t depth) {
  MOEC_TRY(require(
      step.operand.size() == 1 && has_blocks(type, step.block) && type.dtype == DType::f32,
      "view.c15",
      "{} needs one operand and one positive block size per axis of an f32 view, got {} for {}",
      enum_name(step.op), shown(step.block), shown(type)));
  MOEC_ASSIGN(const Type operand, nested_type(step.operand.front(), depth + 1));
  const Dims blocks = block_counts(type, step.block);
  return require(is_float(operand.dtype) && operand.dims == blocks, "view.c15",
                 "{} in blocks of {} needs a float operand of sizes {}, got {}", shown(type),
                 shown(step.block), shown(blocks), shown(operand));
}

Status apply_step(const GatherStep& step, Type& type, size_t depth) {
  MOEC_TRY(check_axis("view.c16", step.axis, type));
  MOEC_TRY(require(step.indices.size() == 1, "view.c16", "gather needs one vector of indices"));
  MOEC_ASSIGN(const Type indices, nested_type(step.indices.front(), depth + 1));
  MOEC_TRY(require(indices.dtype == DType::i32 && indices.rank() == 1, "view.c16",
                   "gather needs indices in an i32 vector, got {}", shown(indices)));
  type.dims.at(step.axis) = indices.dims.front();
  return require(good_sizes(type.dims), "view.c1", "the gathered type {} is too large",
                 shown(type));
}

bool has_part(const UnblockStep& step) {
  if (step.part == UnblockPart::values) return true;
  // Only types with integer codes have the parts codes and scales; some also have zeros.
  const auto codes = block_format(step.type).codes;
  return codes && (step.part != UnblockPart::zeros || codes->zeros);
}

// The sizes after decoding; empty if the bytes are not whole blocks.
std::optional<Dims> unblocked(const UnblockStep& step, Dims dims) {
  const BlockFormat& format = block_format(step.type);
  if (dims.empty() || dims.back() % format.bytes != 0) return std::nullopt;
  dims.back() = dims.back() / format.bytes * unblocked_count(step);
  return good_sizes(dims) ? std::optional(std::move(dims)) : std::nullopt;
}

Status apply_step(const UnblockStep& step, Type& type, size_t) {
  const BlockFormat& format = block_format(step.type);
  MOEC_TRY(require(format.values == BlockValues::decoded, "view.c14", "unblock cannot decode {}",
                   format.name));
  MOEC_TRY(require(has_part(step), "view.c14", "blocks of {} have no {}", format.name,
                   enum_name(step.part)));
  const std::optional<Dims> dims = unblocked(step, type.dims);
  MOEC_TRY(
      require(type.dtype == DType::u8 && dims, "view.c14",
              "unblock({}) requires a view of u8 whose last axis has whole blocks of {} bytes, "
              "got {}",
              format.name, format.bytes, shown(type)));
  // Blocks are decoded to f32, whatever their type is.
  type = {DType::f32, *dims};
  return {};
}

Status apply_step(const CenterStep&, Type& type, size_t) {
  MOEC_TRY(require(is_float(type.dtype) && type.elements() <= kMaxCentered, "view.c11",
                   "center requires a float view of at most {} elements, got {}", kMaxCentered,
                   shown(type)));
  type.dtype = DType::f32;
  return {};
}

Status apply_step(const MapStep&, Type& type, size_t) {
  MOEC_TRY(
      require(is_float(type.dtype), "view.c17", "map requires a float view, got {}", shown(type)));
  type.dtype = DType::f32;
  return {};
}

Status apply_step(const RemainderStep& step, Type& type, size_t) {
  MOEC_TRY(require(is_float(type.dtype) && (step.dtype == DType::f16 || step.dtype == DType::bf16),
                   "view.c12", "remainder requires a float view and f16 or bf16, got {} and {}",
                   shown(type), dtype_name(step.dtype)));
  type.dtype = DType::f32;
  return {};
}

Result<Type> nested_type(const WeightView& view, size_t depth) {
  Type type = view.source_type;
  // The depth is limited, because a text from a user could otherwise overflow the stack.
  MOEC_TRY(
      require(depth < kMaxViewNesting, "view.c2", "views nest deeper than {}", kMaxViewNesting));
  MOEC_TRY(std::visit([&](const auto& source) { return check_source(source, type, depth); },
                      view.source));
  MOEC_TRY(
      require(type.layout == Layout::plain && good_sizes(type.dims), "view.c1",
              "{} is not the type of a weight: expected at most {} positive sizes and layout plain",
              shown(type), kMaxRank));
  for (const ViewStep& step : view.steps)
    MOEC_TRY(std::visit([&](const auto& one) { return apply_step(one, type, depth); }, step));
  return type;
}

}  // namespace

Result<Type> view_type(const WeightView& view) { return nested_type(view, 0); }

}  // namespace moec
