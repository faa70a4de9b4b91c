#include "backends/weights/encode/decode_parts.h"

#include "backends/weights/encode/part_values.h"
#include "backends/weights/views/convert.h"
#include "backends/weights/views/strided.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

using Parts = std::vector<std::vector<std::byte>>;

// Maps codes of an affine encoding to numbers.
class Numbers {
 public:
  Numbers(int64_t bits, CodeForm form) : half_(1 << (bits - 1)), form_(form) {}
  int operator()(uint8_t code) const {
    if (form_ == CodeForm::excess) return code - half_;
    return code < half_ ? code : code - 2 * half_;
  }

 private:
  int half_;
  CodeForm form_;
};

// Calls visit(row, first, count, block) for each run of values that is contiguous in a row of the
// last axis and belongs to one block.
template <class Visit>
void for_each_run(const Encoding& encoding, const Type& type, Visit visit) {
  const Dims block = block_of(encoding), counts = block_counts(encoding, type);
  // Blocks are numbered in C order of their counts. Only the last axis varies within a row, so the
  // other axes give the first block.
  const Dims steps = row_major_steps(counts, 1);
  const int64_t last = type.rank() - 1, columns = type.dims.back();
  Dims index(type.dims.size(), 0);
  for (int64_t row = 0; row < type.elements() / columns; ++row) {
    int64_t first_block = 0;
    for (int64_t axis = 0; axis < last; ++axis)
      first_block += index.at(axis) / block.at(axis) * steps.at(axis);
    for (int64_t begin = 0; begin < columns; begin += block.back())
      visit(row, begin, std::min(block.back(), columns - begin),
            first_block + begin / block.back());
    // Increments the index of the row, the last axis but one first.
    for (int64_t axis = last; axis-- > 0;) {
      if (++index.at(axis) < type.dims.at(axis)) break;
      index.at(axis) = 0;
    }
  }
}

std::vector<float> decode_affine(const AffineEncoding& affine, const Type& type, const Parts& parts,
                                 CodeForm form) {
  const Dims stored = code_dims(affine, type), counts = block_counts(affine, type);
  const auto codes = unpacked(parts[0], affine.bits, *checked_elements(stored));
  const auto scales = floats_of(type.dtype, parts[1]);
  const int64_t across = counts.back();
  // With CodeForm::excess, the zeros of each row fill whole bytes.
  const int64_t zero_row = form == CodeForm::excess
                               ? static_cast<int64_t>(parts.size() > 2 ? parts[2].size() : 0) * 8 /
                                     affine.bits / (*checked_elements(counts) / across)
                               : across;
  std::vector<uint8_t> zeros;
  if (affine.zero_point)
    zeros = unpacked(parts[2], affine.bits, *checked_elements(counts) / across * zero_row);
  const Numbers number(affine.bits, form);
  std::vector<float> values(static_cast<size_t>(type.elements()));
  for_each_run(affine, type, [&](int64_t row, int64_t begin, int64_t count, int64_t block) {
    const auto place = static_cast<size_t>(block / across * zero_row + block % across);
    const int zero = affine.zero_point ? number(zeros[place]) : 0;
    const float scale = scales[static_cast<size_t>(block)];
    // Rows of codes are padded to whole blocks; rows of values are not.
    const auto from = static_cast<size_t>(row * stored.back() + begin),
               to = static_cast<size_t>(row * type.dims.back() + begin);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i)
      values[to + i] = static_cast<float>(number(codes[from + i]) - zero) * scale;
  });
  return values;
}

std::vector<float> decode_palette(const PaletteEncoding& palette, const Type& type,
                                  const Parts& parts) {
  const auto codes = unpacked(parts[0], palette.bits, type.elements());
  const auto tables = floats_of(type.dtype, parts[1]);
  std::vector<float> values(codes.size());
  for_each_run(palette, type, [&](int64_t row, int64_t begin, int64_t count, int64_t block) {
    const float* table = tables.data() + (block << palette.bits);
    const auto from = static_cast<size_t>(row * type.dims.back() + begin);
    for (size_t i = from; i < from + static_cast<size_t>(count); ++i) values[i] = table[codes[i]];
  });
  return values;
}

}  // namespace

std::vector<std::byte> decode_parts(const Encoding& encoding, const Type& type,
                                    const std::vector<std::vector<std::byte>>& parts,
                                    CodeForm form) {
  MOEC_CHECK(!is_plain(encoding), "a plain weight has no parts");
  const auto* affine = std::get_if<AffineEncoding>(&encoding);
  const std::vector<float> values =
      affine ? decode_affine(*affine, type, parts, form)
             : decode_palette(std::get<PaletteEncoding>(encoding), type, parts);
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  encode(type.dtype, values.data(), values.size(), bytes.data());
  return bytes;
}

}  // namespace moec
