#include "ir/graph/encoding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace moec {
namespace {

Dims block_counts(const Dims& block, const Type& type) {
  Dims counts;
  for (int64_t axis = 0; axis < type.rank(); ++axis)
    counts.push_back(type.dims.at(axis) / block.at(axis));
  return counts;
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

Packing signed_packing(int64_t bits) { return bits == 4 ? Packing::i4 : Packing::i8; }

StoredPart packed_part(WeightPart part, Packing packing, int64_t bits, int64_t count) {
  return {part, packing, {DType::u8, {(count * bits + 7) / 8}}};
}

struct Parts {
  const Type& type;

  std::vector<StoredPart> operator()(const PlainEncoding&) const { return {}; }
  std::vector<StoredPart> operator()(const AffineEncoding& affine) const {
    const Packing packing = signed_packing(affine.bits);
    const Dims blocks = block_counts(affine.block, type);
    std::vector<StoredPart> parts{
        packed_part(WeightPart::codes, packing, affine.bits, type.elements()),
        {WeightPart::scales, packing, {type.dtype, blocks}}};
    if (affine.zero_point)
      parts.push_back(
          packed_part(WeightPart::zeros, packing, affine.bits, *checked_elements(blocks)));
    return parts;
  }
  std::vector<StoredPart> operator()(const PaletteEncoding& palette) const {
    const Packing packing = unsigned_packing(palette.bits);
    Dims table = block_counts(palette.block, type);
    table.push_back(int64_t{1} << palette.bits);
    return {packed_part(WeightPart::codes, packing, palette.bits, type.elements()),
            {WeightPart::table, packing, {type.dtype, table}}};
  }
};

// The first numbers of a packed part, with these sizes.
WeightView unpacked(WeightView bytes, Packing packing, const Dims& dims) {
  WeightView numbers = then(std::move(bytes), UnpackStep{packing});
  return then(then(std::move(numbers), SliceStep{0, 0, *checked_elements(dims)}),
              ReshapeStep{dims});
}

struct Decoded {
  const Type& type;
  std::vector<WeightView>& parts;

  WeightView operator()(const PlainEncoding&) const { return std::move(parts.front()); }
  WeightView operator()(const AffineEncoding& affine) const {
    const Packing packing = signed_packing(affine.bits);
    DequantStep step{affine.block, {std::move(parts[1])}};
    if (affine.zero_point)
      step.offset = {unpacked(std::move(parts[2]), packing, block_counts(affine.block, type))};
    return then(unpacked(std::move(parts[0]), packing, type.dims), std::move(step));
  }
  WeightView operator()(const PaletteEncoding& palette) const {
    WeightView codes = unpacked(std::move(parts[0]), unsigned_packing(palette.bits), type.dims);
    return then(std::move(codes), LutStep{palette.block, {std::move(parts[1])}});
  }
};

bool has_bits(int64_t bits, std::initializer_list<int64_t> known) {
  return std::find(known.begin(), known.end(), bits) != known.end();
}

Status check_blocks(std::string_view name, const Dims& block, const Type& type) {
  bool divides = block.rank() == type.rank();
  for (int64_t axis = 0; divides && axis < type.rank(); ++axis)
    divides = block.at(axis) >= 1 && type.dims.at(axis) % block.at(axis) == 0;
  if (divides) return {};
  return fail(
      "weight.c4",
      fmt::format("blocks of {} do not divide a weight of {}", to_string(block), to_string(type)),
      fmt::format("choose sizes for {} that divide each axis", name));
}

struct Check {
  const Type& type;

  Status operator()(const PlainEncoding&) const { return {}; }
  Status operator()(const AffineEncoding& affine) const {
    return check("affine", affine.bits, {4, 8}, "4 or 8", affine.block);
  }
  Status operator()(const PaletteEncoding& palette) const {
    MOEC_TRY(
        check("palette", palette.bits, {1, 2, 3, 4, 6, 8}, "1, 2, 3, 4, 6 or 8", palette.block));
    if (type.rank() < kMaxRank) return {};
    return fail("weight.c5", fmt::format("palette encodes weights of at most {} axes, not {}",
                                         kMaxRank - 1, to_string(type)));
  }

 private:
  Status check(std::string_view name, int64_t bits, std::initializer_list<int64_t> known,
               std::string_view known_text, const Dims& block) const {
    if (!has_bits(bits, known))
      return fail("weight.c3", fmt::format("{} has {} bits, not {}", name, known_text, bits));
    if (!is_float(type.dtype) || type.rank() == 0)
      return fail("weight.c5", fmt::format("{} encodes weights of f32, f16 or bf16 with at least "
                                           "one axis, not {}",
                                           name, to_string(type)));
    return check_blocks(name, block, type);
  }
};

struct Print {
  std::string operator()(const PlainEncoding&) const { return "plain"; }
  std::string operator()(const AffineEncoding& affine) const {
    return fmt::format("affine({}; {}{})", affine.bits, fmt::join(affine.block, ", "),
                       affine.zero_point ? "; zero" : "");
  }
  std::string operator()(const PaletteEncoding& palette) const {
    return fmt::format("palette({}; {})", palette.bits, fmt::join(palette.block, ", "));
  }
};

}  // namespace

std::vector<StoredPart> stored_parts(const Encoding& encoding, const Type& type) {
  return std::visit(Parts{type}, encoding);
}

int64_t stored_bytes(const Encoding& encoding, const Type& type) {
  const std::vector<StoredPart> parts = stored_parts(encoding, type);
  if (parts.empty()) return type.bytes();
  int64_t bytes = 0;
  for (const StoredPart& part : parts) bytes += part.type.bytes();
  return bytes;
}

WeightView decoded_view(const Encoding& encoding, const Type& type, std::vector<WeightView> parts) {
  return then(std::visit(Decoded{type, parts}, encoding), CastStep{type.dtype});
}

Status check_encoding(const Encoding& encoding, const Type& type) {
  return std::visit(Check{type}, encoding);
}

std::string to_string(const Encoding& encoding) { return std::visit(Print{}, encoding); }

}  // namespace moec
