#include <algorithm>
#include <array>

#include "backends/weights/views/code_kernels.h"
#include "backends/weights/views/coded_rows.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

// Maximum number of blocks whose parameters are decoded at a time.
constexpr int64_t kBandBlocks = 1024;

// The kernel that multiplies codes: numbers, or indices of a table. No codes have 0 bits.
struct DotKernel {
  int bits = 0;
  bool is_table = false;
  LinearCodes linear;
};

DotKernel linear(int bits, uint8_t flip, int center) { return {bits, false, {bits, flip, center}}; }

// Unsigned codes are counted from the middle of their range.
DotKernel dot_kernel(const CodedRows& rows) {
  const auto* packing = std::get_if<Packing>(&rows.codes.form);
  if (packing == nullptr) return {};
  if (rows.table) return {code_bits(*packing), true, {}};
  switch (*packing) {
    case Packing::u4:
      return linear(4, 8, 8);
    case Packing::i4:
      return linear(4, 0, 0);
    case Packing::i4_excess8:
      return linear(4, 8, 0);
    case Packing::u8:
      return linear(8, 0x80, 128);
    case Packing::i8:
      return linear(8, 0, 0);
    case Packing::f4_e2m1:
      return {4, true, {}};
    case Packing::f8_e8m0:
    case Packing::u1:
    case Packing::u2:
    case Packing::u3:
    case Packing::u6:
      return {};
  }
  return {};
}

// True if a kernel can multiply each row.
bool has_dot_kernel(const CodedRows& rows) {
  const DotKernel kernel = dot_kernel(rows);
  if (kernel.bits == 0) return false;
  // The entries of a table are rounded once, other values one by one.
  if (rows.rounded != DType::f32 && !rows.table) return false;
  const bool begins_at_bytes =
      rows.codes.first * kernel.bits % 8 == 0 && rows.columns * kernel.bits % 8 == 0;
  const bool keeps_groups =
      rows.block_columns % kTokenGroup == 0 || rows.block_columns >= rows.columns;
  return begins_at_bytes && keeps_groups;
}

// Columns [first, first + count) of consecutive rows.
struct Part {
  RowRange rows;
  int64_t first = 0, count = 0;
};

class RowProducts {
 public:
  RowProducts(const CodedRows& rows, const HeldBytes& held, const CodedToken& token)
      : rows_(rows), held_(held), token_(token), kernel_(dot_kernel(rows)) {}

  bool dot(const RowRange& range, float* out) const {
    const int64_t room = room_of_part();
    if (room >= rows_.columns) return dot_bands({range, 0, rows_.columns}, out);
    std::fill_n(out, range.count, 0.0f);
    std::vector<float> sums(static_cast<size_t>(range.count));
    for (int64_t column = 0; column < rows_.columns; column += room) {
      const Part part{range, column, std::min(room, rows_.columns - column)};
      if (!dot_bands(part, sums.data())) return false;
      for (int64_t r = 0; r < range.count; ++r) out[r] += sums[static_cast<size_t>(r)];
    }
    return true;
  }

 private:
  int64_t blocks_of(int64_t columns) const {
    return (columns + rows_.block_columns - 1) / rows_.block_columns;
  }

  // Columns that a kernel multiplies at a time: one block of a table; as many blocks as there is
  // room for parameters.
  int64_t room_of_part() const { return (rows_.table ? 1 : kBandBlocks) * rows_.block_columns; }

  // Multiplies as many rows at a time as share a table, or as there is room for parameters.
  bool dot_bands(const Part& part, float* out) const {
    const int64_t blocks = blocks_of(part.count);
    const bool is_narrow = part.count < rows_.columns;  // then parameters are not consecutive
    const int64_t most = rows_.block_rows > 1 || is_narrow ? 1 : kBandBlocks / blocks;
    for (int64_t r = 0; r < part.rows.count;) {
      const int64_t row = part.rows.first + r;
      const int64_t band = rows_.table ? rows_.block_rows - row % rows_.block_rows : most;
      const RowRange rows{row, std::min(band, part.rows.count - r)};
      if (!dot_band({rows, part.first, part.count}, out + r)) return false;
      r += rows.count;
    }
    return true;
  }

  bool dot_band(const Part& part, float* out) const {
    const int64_t first = part.rows.first * rows_.columns + part.first;
    const int64_t count = (part.rows.count - 1) * rows_.columns + part.count;
    const std::byte* codes = NumberReader(rows_.codes, held_).bytes(first, count);
    if (codes == nullptr) return false;
    const int64_t block = part.rows.first / rows_.block_rows * blocks_of(rows_.columns) +
                          part.first / rows_.block_columns;
    const CodeBlockRows rows{{codes, part.count, std::min(rows_.block_columns, part.count)},
                             part.rows.count,
                             rows_.columns * kernel_.bits / 8};
    return rows_.table ? look_up(rows, block, part.first, out)
                       : dequantize(rows, block, part.first, out);
  }

  bool look_up(CodeBlockRows rows, int64_t block, int64_t column, float* out) const {
    std::array<float, 256> table;
    const int64_t entries = int64_t{1} << kernel_.bits;
    if (!NumberReader(*rows_.table, held_).read(block * rows_.entries, entries, table.data()))
      return false;
    round_values(rows_.rounded, table.data(), static_cast<size_t>(entries));
    rows.first.block = rows.first.count;
    dot_table_rows(rows, kernel_.bits, table.data(), values_from(column), out);
    return true;
  }

  bool dequantize(CodeBlockRows rows, int64_t block, int64_t column, float* out) const {
    std::array<float, 2 * kBandBlocks> buffer;
    const int64_t blocks = rows.rows * blocks_of(rows.first.count);
    rows.first.scales = NumberReader(*rows_.scales, held_).get(block, blocks, buffer.data());
    if (rows.first.scales == nullptr) return false;
    if (rows_.offsets) {
      rows.first.offsets =
          NumberReader(*rows_.offsets, held_).get(block, blocks, buffer.data() + kBandBlocks);
      if (rows.first.offsets == nullptr) return false;
    }
    if (token_.format == ActivationFormat::int8)
      dot_integers(rows, codes_from(column), out);
    else if (kernel_.is_table)
      dot_table_rows(rows, kernel_.bits, f4_values().data(), values_from(column), out);
    else
      dot_linear_rows(rows, kernel_.linear, values_from(column), out);
    return true;
  }

  void dot_integers(const CodeBlockRows& rows, const TokenCodes& codes, float* out) const {
    if (!kernel_.is_table) return dot_linear_rows(rows, kernel_.linear, codes, out);
    NibbleIntegers doubled;  // twice the values of f4_e2m1 are integers
    std::ranges::transform(f4_values(), doubled.begin(),
                           [](float value) { return static_cast<int8_t>(2 * value); });
    dot_table_rows(rows, doubled, codes, out);
    for (int64_t r = 0; r < rows.rows; ++r) out[r] /= 2;
  }

  static const NibbleTable& f4_values() {
    static const NibbleTable values = nibble_values(Packing::f4_e2m1);
    return values;
  }

  // The token from a column on, which begins a group.
  TokenValues values_from(int64_t column) const {
    return {token_.values.data() + column / float_planes(kernel_.bits), token_.plane,
            token_.sums.data() + column / kTokenGroup};
  }
  TokenCodes codes_from(int64_t column) const {
    const int64_t group = column / kTokenGroup;
    return {.byte_factors = token_.byte_factors.data() + column,
            .nibble_factors = token_.nibble_factors.data() + column / 2,
            .plane = token_.plane,
            .lane_sums = token_.lane_sums.data() + column / lane_codes(4),
            .scales = token_.scales.data() + group,
            .sums = token_.sums.data() + group};
  }

  const CodedRows& rows_;
  const HeldBytes& held_;
  const CodedToken& token_;
  DotKernel kernel_;
};

// Tables have no integer values. The integers of f4_e2m1 are twice its values, and the kernels
// would subtract an offset only once.
bool has_integers(const CodedRows& rows) {
  return !rows.table && !(rows.offsets && holds_packing(rows.codes, Packing::f4_e2m1));
}

}  // namespace

std::optional<CodedToken> arrange_token(const CodedRows& rows, const float* token,
                                        ActivationFormat format) {
  if (!has_dot_kernel(rows)) return std::nullopt;
  return arranged({token, static_cast<size_t>(rows.columns)},
                  has_integers(rows) ? format : ActivationFormat::f32, dot_kernel(rows).bits);
}

bool dot_coded_rows(const CodedRows& rows, const HeldBytes& held, const RowRange& range,
                    const CodedToken& token, float* out) {
  return RowProducts(rows, held, token).dot(range, out);
}

}  // namespace moec
