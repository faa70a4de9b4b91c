#include "ir/graph/encoding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace moec {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

Dims counts_of(const Dims& block, const Type& type) {
  Dims counts;
  for (int64_t axis = 0; axis < type.rank(); ++axis)
    counts.push_back(ceil_div(type.dims.at(axis), block.at(axis)));
  return counts;
}

// The sizes of `type` with the last axis padded to whole blocks.
Dims filled_up(const Dims& block, const Type& type) {
  Dims dims = type.dims;
  dims.back() = ceil_div(dims.back(), block.back()) * block.back();
  return dims;
}

Packing unsigned_packing(int64_t bits) {
  switch (bits) {
    case 1:
      return Packing::u1;
    case 2:
      return Packing::u2;
    case 3:
      return Packing::u3;
    case 4:
      return Packing::u4;
    case 6:
      return Packing::u6;
    default:
      return Packing::u8;
  }
}

Packing affine_packing(int64_t bits, CodeForm form) {
  if (form == CodeForm::excess) return unsigned_packing(bits);
  // check_encoding() accepts only 4 and 8 bits.
  return bits == 4 ? Packing::i4 : Packing::i8;
}

// The sizes of the zeros, row padding included.
Dims zero_dims(const AffineEncoding& affine, const Type& type, CodeForm form) {
  Dims dims = counts_of(affine.block, type);
  const int64_t per_byte = 8 / affine.bits;
  // With excess codes, the zeros of each row begin at a byte boundary.
  if (form == CodeForm::excess) dims.back() = ceil_div(dims.back(), per_byte) * per_byte;
  return dims;
}

StoredPart packed_part(WeightPart part, Packing packing, int64_t bits, const Dims& dims) {
  // The numbers are packed without gaps, so only the total is rounded up.
  return {part, packing, {DType::u8, {ceil_div(*checked_elements(dims) * bits, 8)}}};
}

struct Parts {
  const Type& type;
  CodeForm form;

  std::vector<StoredPart> operator()(const PlainEncoding&) const { return {}; }
  std::vector<StoredPart> operator()(const AffineEncoding& affine) const {
    const Packing packing = affine_packing(affine.bits, form);
    std::vector<StoredPart> parts{
        packed_part(WeightPart::codes, packing, affine.bits, filled_up(affine.block, type)),
        {WeightPart::scales, packing, {type.dtype, counts_of(affine.block, type)}}};
    if (affine.zero_point && affine.copied)
      parts.push_back({WeightPart::zeros, packing, {type.dtype, counts_of(affine.block, type)}});
    else if (affine.zero_point)
      parts.push_back(
          packed_part(WeightPart::zeros, packing, affine.bits, zero_dims(affine, type, form)));
    return parts;
  }
  std::vector<StoredPart> operator()(const PaletteEncoding& palette) const {
    const Packing packing = unsigned_packing(palette.bits);
    Dims table = counts_of(palette.block, type);
    // A table has 2^bits entries per group, along an additional last axis.
    table.push_back(int64_t{1} << palette.bits);
    return {packed_part(WeightPart::codes, packing, palette.bits, type.dims),
            {WeightPart::table, packing, {type.dtype, table}}};
  }
};

// Unpacks a part of sizes `dims` and drops its padding: `kept` may be smaller along the last axis.
WeightView unpacked(WeightView bytes, Packing packing, const Dims& dims, const Dims& kept) {
  WeightView numbers = then(std::move(bytes), UnpackStep{packing});
  // The bytes are rounded up, so they can contain more numbers than the part has.
  numbers =
      then(then(std::move(numbers), SliceStep{0, 0, *checked_elements(dims)}), ReshapeStep{dims});
  return then(std::move(numbers), SliceStep{dims.rank() - 1, 0, kept.back()});
}

// The offset that is added to excess codes.
double excess_of(int64_t bits) { return static_cast<double>(int64_t{1} << (bits - 1)); }

struct Decoded {
  const Type& type;
  std::vector<WeightView>& parts;
  CodeForm form;

  WeightView operator()(const PlainEncoding&) const { return std::move(parts.front()); }
  WeightView operator()(const AffineEncoding& affine) const {
    const Packing packing = affine_packing(affine.bits, form);
    const Dims blocks = counts_of(affine.block, type);
    DequantStep step{affine.block, {std::move(parts[1])}};
    if (affine.zero_point && affine.copied)
      step.offset = {std::move(parts[2])};
    else if (affine.zero_point)
      step.offset = {unpacked(std::move(parts[2]), packing, zero_dims(affine, type, form), blocks)};
    else if (form == CodeForm::excess)
      // The codes contain the excess, so it is subtracted even without zero points.
      step.offset = {splat_view(excess_of(affine.bits), {DType::f32, blocks})};
    return then(unpacked(std::move(parts[0]), packing, filled_up(affine.block, type), type.dims),
                std::move(step));
  }
  WeightView operator()(const PaletteEncoding& palette) const {
    WeightView codes =
        unpacked(std::move(parts[0]), unsigned_packing(palette.bits), type.dims, type.dims);
    return then(std::move(codes), LutStep{palette.block, {std::move(parts[1])}});
  }
};

bool has_bits(int64_t bits, std::initializer_list<int64_t> known) {
  return std::find(known.begin(), known.end(), bits) != known.end();
}

// A partial block at the end of an axis is padded. This limit bounds the growth of the weight.
constexpr int64_t kLargestPartialBlock = 1 << 16;

// Blocks must divide the first `divided` axes.
Status check_blocks(std::string_view name, const Dims& block, const Type& type, int64_t divided) {
  bool divides = block.rank() == type.rank();
  for (int64_t axis = 0; divides && axis < type.rank(); ++axis)
    // Axes from `divided` on may end in a partial block, which is padded.
    divides = block.at(axis) >= 1 && (type.dims.at(axis) % block.at(axis) == 0 ||
                                      (axis >= divided && block.at(axis) <= kLargestPartialBlock));
  if (divides) return {};
  return fail(
      "weight.c4",
      fmt::format("blocks of {} do not divide a weight of {}", to_string(block), to_string(type)),
      fmt::format("choose sizes of {} that divide each axis", name));
}

struct Check {
  const Type& type;

  Status operator()(const PlainEncoding&) const { return {}; }
  Status operator()(const AffineEncoding& affine) const {
    if (affine.copied && affine.zero_point && affine.bits != 4)
      return fail("weight.c3", "copied codes with zeros must have 4 bits");
    // The last axis may be padded, because this padding lies at the end of each row.
    return check("affine", affine.bits, {4, 8}, "4 or 8", affine.block, type.rank() - 1);
  }
  Status operator()(const PaletteEncoding& palette) const {
    MOEC_TRY(check("palette", palette.bits, {1, 2, 3, 4, 6, 8}, "1, 2, 3, 4, 6 or 8", palette.block,
                   type.rank()));
    // The table has one axis more than the weight, and tables have at most kMaxRank axes.
    if (type.rank() < kMaxRank) return {};
    return fail("weight.c5", fmt::format("palette supports weights of at most {} axes, got {}",
                                         kMaxRank - 1, to_string(type)));
  }

 private:
  Status check(std::string_view name, int64_t bits, std::initializer_list<int64_t> known,
               std::string_view known_text, const Dims& block, int64_t divided) const {
    if (!has_bits(bits, known))
      return fail("weight.c3", fmt::format("{} supports {} bits, got {}", name, known_text, bits));
    if (!is_float(type.dtype) || type.rank() == 0)
      return fail("weight.c5", fmt::format("{} supports weights of f32, f16 or bf16 with at least "
                                           "one axis, got {}",
                                           name, to_string(type)));
    return check_blocks(name, block, type, divided);
  }
};

struct Print {
  std::string operator()(const PlainEncoding&) const { return "plain"; }
  std::string operator()(const AffineEncoding& affine) const {
    return fmt::format("affine({}; {}{}{})", affine.bits, fmt::join(affine.block, ", "),
                       affine.zero_point ? "; zero" : "", affine.copied ? "; copied" : "");
  }
  std::string operator()(const PaletteEncoding& palette) const {
    return fmt::format("palette({}; {})", palette.bits, fmt::join(palette.block, ", "));
  }
};

}  // namespace

std::vector<StoredPart> stored_parts(const Encoding& encoding, const Type& type, CodeForm form) {
  return std::visit(Parts{type, form}, encoding);
}

namespace {

struct BlockOf {
  Dims operator()(const PlainEncoding&) const { return {}; }
  Dims operator()(const AffineEncoding& affine) const { return affine.block; }
  Dims operator()(const PaletteEncoding& palette) const { return palette.block; }
};

}  // namespace

int64_t code_bits(const Encoding& encoding) {
  if (const auto* affine = std::get_if<AffineEncoding>(&encoding)) return affine->bits;
  const auto* palette = std::get_if<PaletteEncoding>(&encoding);
  return palette ? palette->bits : 0;
}

Dims block_of(const Encoding& encoding) { return std::visit(BlockOf{}, encoding); }

Dims block_counts(const Encoding& encoding, const Type& type) {
  return is_plain(encoding) ? Dims(type.rank(), 1) : counts_of(block_of(encoding), type);
}

Dims code_dims(const Encoding& encoding, const Type& type) {
  return is_plain(encoding) ? type.dims : filled_up(block_of(encoding), type);
}

int64_t stored_bytes(const Encoding& encoding, const Type& type) {
  const std::vector<StoredPart> parts = stored_parts(encoding, type);
  if (parts.empty()) return type.bytes();
  int64_t bytes = 0;
  for (const StoredPart& part : parts) bytes += part.type.bytes();
  return bytes;
}

WeightView decoded_view(const Encoding& encoding, const Type& type, std::vector<WeightView> parts,
                        CodeForm form) {
  // Decoding yields f32, so a cast to the weight's element type follows.
  return then(std::visit(Decoded{type, parts, form}, encoding), CastStep{type.dtype});
}

Status check_encoding(const Encoding& encoding, const Type& type) {
  return std::visit(Check{type}, encoding);
}

std::string to_string(const Encoding& encoding) { return std::visit(Print{}, encoding); }

}  // namespace moec
