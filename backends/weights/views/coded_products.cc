#include <algorithm>
#include <array>

#include "backends/weights/views/code_kernels.h"
#include "backends/weights/views/coded_rows.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

// Number of blocks whose parameters are decoded at a time: as many as stay in the L1 cache, or, if
// rows are long, those of as many rows as the widest vector has lanes.
constexpr int64_t kBandBlocks = 1024, kLongBandBlocks = 8 * kBandBlocks, kLanes = 16;

int64_t rows_in_band(int64_t blocks_in_row) {
  const int64_t rows = kBandBlocks / blocks_in_row;
  return rows < kLanes ? std::min(kLanes, kLongBandBlocks / blocks_in_row) : rows / kLanes * kLanes;
}

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
  if (rows.table) return {number_bits(*packing), true, {}};
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
    default:
      return {};
  }
  return {};
}

// Tables have no integer values. The integers of f4_e2m1 are twice its values, and the kernels
// would subtract an offset only once.
bool has_integers(const CodedRows& rows) {
  return !rows.table && !(rows.offsets && holds_packing(rows.codes, Packing::f4_e2m1));
}

}  // namespace

bool skips_rounding(const CodedRows& rows, ActivationFormat format) {
  return format == ActivationFormat::int8 && has_integers(rows);
}

namespace {

// True if a kernel can multiply each row.
bool has_dot_kernel(const CodedRows& rows, ActivationFormat format) {
  const DotKernel kernel = dot_kernel(rows);
  if (kernel.bits == 0) return false;
  // The entries of a table are rounded once, other values one by one.
  if (rows.rounded != DType::f32 && !rows.table && !skips_rounding(rows, format)) return false;
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

const NibbleTable& f4_values() {
  static const NibbleTable values = nibble_values(Packing::f4_e2m1);
  return values;
}

// Twice the values of f4_e2m1, which are integers.
const NibbleIntegers& doubled_f4_values() {
  static const NibbleIntegers doubled = [] {
    NibbleIntegers to;
    std::ranges::transform(f4_values(), to.begin(),
                           [](float value) { return static_cast<int8_t>(2 * value); });
    return to;
  }();
  return doubled;
}

// A band of rows, from a column on that begins a group.
struct Band {
  const DotKernel& kernel;
  BlockRows rows;
  int64_t column = 0;
  const float* table = nullptr;  // unless the kernel is linear
};

int64_t count_of(const CodedToken& /*token*/) { return 1; }
int64_t count_of(const CodedTokens& tokens) { return tokens.count(); }

void multiply_floats(const Band& band, const CodedToken& token, float* out) {
  const DotKernel& kernel = band.kernel;
  const TokenValues values{token.values.data() + band.column / float_planes(kernel.bits),
                           token.plane, token.sums.data() + band.column / kTokenGroup};
  if (kernel.is_table)
    dot_table_rows(band.rows, kernel.bits, band.table, values, out);
  else
    dot_linear_rows(band.rows, kernel.linear, values, out);
}

void multiply_integers(const Band& band, const CodedToken& token, float* out) {
  const int64_t group = band.column / kTokenGroup;
  const bool is_planes = band.kernel.bits == 4;
  const TokenCodes codes{.factors = token.factors.data() + band.column / (is_planes ? 2 : 1),
                         .plane = token.plane,
                         .lane_sums = token.lane_sums.data() + band.column / lane_codes(4),
                         .scales = token.scales.data() + group,
                         .sums = token.sums.data() + group};
  if (!band.kernel.is_table) return dot_linear_rows(band.rows, band.kernel.linear, codes, out);
  dot_table_rows(band.rows, doubled_f4_values(), codes, out);
  for (int64_t r = 0; r < band.rows.rows; ++r) out[r] /= 2;
}

void multiply_band(const Band& band, const CodedToken& token, TokenProducts out) {
  token.format == ActivationFormat::int8 ? multiply_integers(band, token, out.to)
                                         : multiply_floats(band, token, out.to);
}

void multiply_band(const Band& band, const CodedTokens& tokens, TokenProducts out) {
  const TokenCodeBlocks codes = tokens.from(band.column);
  if (!band.kernel.is_table) return multiply_linear_rows(band.rows, band.kernel.linear, codes, out);
  multiply_table_rows(band.rows, doubled_f4_values(), codes, out);
  for (int64_t t = 0; t < codes.count; ++t)
    for (int64_t r = 0; r < band.rows.rows; ++r) out.to[t * out.stride + r] /= 2;
}

// Products of rows with a CodedToken or CodedTokens.
template <class Tokens>
class RowProducts {
 public:
  RowProducts(const CodedRows& rows, const HeldBytes& held, const Tokens& tokens)
      : rows_(rows), held_(held), tokens_(tokens), kernel_(dot_kernel(rows)) {
    // Kernels of 8 bits always count unsigned codes from 128.
    cancels_ = rows.offsets && kernel_.bits == 4 && offsets_are(kernel_.linear.center);
    if (cancels_) kernel_.linear.center = 0;
  }

  bool dot(const RowRange& range, TokenProducts out) const {
    const int64_t room = room_of_part();
    if (room >= rows_.columns) return dot_bands({range, 0, rows_.columns}, out);
    const int64_t count = count_of(tokens_);
    for (int64_t t = 0; t < count; ++t) std::fill_n(out.to + t * out.stride, range.count, 0.0f);
    std::vector<float> sums(static_cast<size_t>(count * range.count));
    for (int64_t column = 0; column < rows_.columns; column += room) {
      const Part part{range, column, std::min(room, rows_.columns - column)};
      if (!dot_bands(part, {sums.data(), range.count})) return false;
      for (int64_t t = 0; t < count; ++t)
        for (int64_t r = 0; r < range.count; ++r)
          out.to[t * out.stride + r] += sums[static_cast<size_t>(t * range.count + r)];
    }
    return true;
  }

 private:
  int64_t blocks_of(int64_t columns) const {
    return (columns + rows_.block_columns - 1) / rows_.block_columns;
  }

  // True if each offset is this number.
  bool offsets_are(int center) const {
    const auto* constant = std::get_if<float>(&rows_.offsets->form);
    return constant != nullptr && *constant == static_cast<float>(center);
  }

  // Columns that a kernel multiplies at a time: one block of a table; as many blocks as there is
  // room for parameters.
  int64_t room_of_part() const { return (rows_.table ? 1 : kLongBandBlocks) * rows_.block_columns; }

  // Multiplies as many rows at a time as share a table, or as there is room for parameters.
  bool dot_bands(const Part& part, TokenProducts out) const {
    const bool is_narrow = part.count < rows_.columns;  // then parameters are not consecutive
    int64_t most = is_narrow ? 1 : rows_in_band(blocks_of(part.count));
    if (rows_.table) most = part.rows.count;
    for (int64_t r = 0; r < part.rows.count;) {
      const int64_t row = part.rows.first + r, share = rows_.block_rows - row % rows_.block_rows;
      const int64_t band = rows_.table || rows_.block_rows > 1 ? std::min(most, share) : most;
      const RowRange rows{row, std::min(band, part.rows.count - r)};
      if (!dot_band({rows, part.first, part.count}, {out.to + r, out.stride})) return false;
      r += rows.count;
    }
    return true;
  }

  bool dot_band(const Part& part, TokenProducts out) const {
    const int64_t first = part.rows.first * rows_.columns + part.first;
    const int64_t count = (part.rows.count - 1) * rows_.columns + part.count;
    const std::byte* codes = NumberReader(rows_.codes, held_).bytes(first, count);
    if (codes == nullptr) return false;
    const int64_t block = part.rows.first / rows_.block_rows * blocks_of(rows_.columns) +
                          part.first / rows_.block_columns;
    const BlockRows rows{{codes, part.count, std::min(rows_.block_columns, part.count)},
                         part.rows.count,
                         rows_.columns * kernel_.bits / 8};
    const Band band{kernel_, rows, part.first};
    return rows_.table ? look_up(band, block, out) : dequantize(band, block, out);
  }

  bool look_up(Band band, int64_t block, TokenProducts out) const {
    std::array<float, 256> table;
    const int64_t entries = int64_t{1} << kernel_.bits;
    if (!NumberReader(*rows_.table, held_).read(block * rows_.entries, entries, table.data()))
      return false;
    round_values(rows_.rounded, table.data(), static_cast<size_t>(entries));
    band.rows.first.block = band.rows.first.count;
    band.table = table.data();
    multiply_band(band, tokens_, out);
    return true;
  }

  // Returns the scales or offsets of a band, from a block on; null if bytes are missing.
  const float* parameters(const StoredNumbers& numbers, const Band& band, int64_t block,
                          float* buffer) const {
    const NumberReader reader(numbers, held_);
    const int64_t rows = band.rows.rows, blocks = blocks_of(band.rows.first.count);
    if (rows_.block_rows == 1) return reader.get(block, rows * blocks, buffer);
    if (!reader.read(block, blocks, buffer)) return nullptr;
    for (int64_t row = 1; row < rows; ++row) std::copy_n(buffer, blocks, buffer + row * blocks);
    return buffer;
  }

  bool dequantize(Band band, int64_t block, TokenProducts out) const {
    std::array<float, 2 * kLongBandBlocks> buffer;
    BlockRow& of = band.rows.first;
    of.scales = parameters(*rows_.scales, band, block, buffer.data());
    if (of.scales == nullptr) return false;
    if (rows_.offsets && !cancels_) {
      of.offsets = parameters(*rows_.offsets, band, block, buffer.data() + kLongBandBlocks);
      if (of.offsets == nullptr) return false;
    }
    if (kernel_.is_table) band.table = f4_values().data();
    multiply_band(band, tokens_, out);
    return true;
  }

  const CodedRows& rows_;
  const HeldBytes& held_;
  const Tokens& tokens_;
  DotKernel kernel_;
  bool cancels_ = false;  // the offsets are the center of the codes
};

}  // namespace

std::optional<Arrangement> arrangement_of(const CodedRows& rows, ActivationFormat format) {
  if (!has_dot_kernel(rows, format)) return std::nullopt;
  return Arrangement{has_integers(rows) ? format : ActivationFormat::f32, dot_kernel(rows).bits};
}

bool dot_coded_rows(const CodedRows& rows, const HeldBytes& held, const RowRange& range,
                    const CodedToken& token, float* out) {
  return RowProducts(rows, held, token).dot(range, {out, range.count});
}

bool dot_coded_rows(const CodedRows& rows, const HeldBytes& held, const RowRange& range,
                    const CodedTokens& tokens, TokenProducts out) {
  return RowProducts(rows, held, tokens).dot(range, out);
}

}  // namespace moec
