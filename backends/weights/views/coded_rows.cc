#include "backends/weights/views/coded_rows.h"

#include <algorithm>
#include <array>

#include "backends/weights/views/code_kernels.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

// Maximum number of blocks whose parameters are decoded at a time: 4,096 columns in blocks of 16.
constexpr int64_t kParameters = 256;

// All numbers of a run have the same whole number of bits, so the division is exact.
int64_t code_bits(Packing packing) {
  const PackedRun run = packed_run(packing);
  return run.elements * dtype_bytes(run.dtype) * 8 / run.numbers;
}

class NumberReader {
 public:
  NumberReader(const StoredNumbers& numbers, const HeldBytes& held)
      : numbers_(numbers), held_(held) {}

  // Reads numbers [index, index + count). Returns false if bytes are missing.
  bool read(int64_t index, int64_t count, float* to) const {
    if (const float* constant = std::get_if<float>(&numbers_.form)) {
      std::fill_n(to, count, *constant);
      return true;
    }
    // A constant has no position, so `first` applies only from here on.
    index += numbers_.first;
    if (const auto* dtype = std::get_if<DType>(&numbers_.form)) {
      const std::byte* from = find(index * dtype_bytes(*dtype), count * dtype_bytes(*dtype));
      if (from != nullptr) decode(*dtype, from, static_cast<size_t>(count), to);
      return from != nullptr;
    }
    return read_packed(std::get<Packing>(numbers_.form), index, count, to);
  }

  // Returns numbers [index, index + count): in place if they are stored as f32, else copied to
  // `buffer`. Returns null if bytes are missing.
  const float* get(int64_t index, int64_t count, float* buffer) const {
    const auto* dtype = std::get_if<DType>(&numbers_.form);
    if (dtype && *dtype == DType::f32) {
      const std::byte* from = find((index + numbers_.first) * 4, count * 4);
      // Offsets in a file need not be multiples of 4; reading an unaligned float is undefined.
      if (from && reinterpret_cast<uintptr_t>(from) % alignof(float) == 0)
        return reinterpret_cast<const float*>(from);
    }
    return read(index, count, buffer) ? buffer : nullptr;
  }

  // Returns the bytes of packed numbers [index, index + count); null if the first number does not
  // start at a byte boundary, or if bytes are missing.
  const std::byte* bytes(int64_t index, int64_t count) const {
    const int64_t bits = code_bits(std::get<Packing>(numbers_.form));
    const int64_t first = (index + numbers_.first) * bits;
    return first % 8 == 0 ? find(first / 8, (count * bits + 7) / 8) : nullptr;
  }

 private:
  const std::byte* find(int64_t byte, int64_t bytes) const {
    return held_.find(numbers_.at.offset + static_cast<uint64_t>(byte),
                      static_cast<uint64_t>(bytes));
  }

  // Decodes whole runs directly into `to`, and a partial run at either end through a temporary
  // buffer.
  bool read_packed(Packing packing, int64_t index, int64_t count, float* to) const {
    const PackedRun run = packed_run(packing);
    const int64_t bits = code_bits(packing), end = index + count;
    const int64_t unit = dtype_bytes(run.dtype), run_bytes = run.elements * unit;
    const int64_t first = (index + run.numbers - 1) / run.numbers * run.numbers;
    const int64_t last = std::max(first, end / run.numbers * run.numbers);
    // `first` lies after `end` if all numbers are in the middle of one run; hence the minimum.
    if (first > index && !read_part(packing, index, std::min(first, end) - index, to)) return false;
    if (last > first) {
      const int64_t runs = (last - first) / run.numbers;
      const std::byte* from = find(first / run.numbers * run_bytes, (last - first) * bits / 8);
      if (from == nullptr) return false;
      unpack(packing, from, static_cast<size_t>(runs * run.elements), to + (first - index));
    }
    return last >= end || first >= end || read_part(packing, last, end - last, to + (last - index));
  }

  // Reads numbers of a single run.
  bool read_part(Packing packing, int64_t index, int64_t count, float* to) const {
    const PackedRun run = packed_run(packing);
    const int64_t unit = dtype_bytes(run.dtype), skip = index % run.numbers;
    const int64_t bytes = ((skip + count) * code_bits(packing) + 8 * unit - 1) / (8 * unit) * unit;
    const std::byte* from = find(index / run.numbers * run.elements * unit, bytes);
    if (from == nullptr) return false;
    std::array<float, 8> numbers;  // no packing has longer runs
    unpack(packing, from, static_cast<size_t>(bytes / unit), numbers.data());
    std::copy_n(numbers.begin() + skip, count, to);
    return true;
  }

  const StoredNumbers& numbers_;
  const HeldBytes& held_;
};

// Part of a row to decode, and the destination of its values.
struct Segment {
  int64_t row = 0, column = 0, count = 0;
  float* values = nullptr;
};

// The kernel that reads codes of a packing.
struct CodeKernel {
  bool is_nibbles = false, is_bytes = false, is_signed = false;
  NibbleTable values{};  // of the 4-bit codes
};

bool holds_packing(const StoredNumbers& numbers, Packing packing) {
  const auto* stored = std::get_if<Packing>(&numbers.form);
  return stored != nullptr && *stored == packing;
}

CodeKernel code_kernel(const StoredNumbers& codes) {
  const auto* packing = std::get_if<Packing>(&codes.form);
  if (packing == nullptr) return {};
  CodeKernel kernel{.is_nibbles = *packing == Packing::u4 || *packing == Packing::i4 ||
                                  *packing == Packing::f4_e2m1 || *packing == Packing::i4_excess8,
                    .is_bytes = *packing == Packing::u8 || *packing == Packing::i8,
                    .is_signed = *packing == Packing::i8};
  if (!kernel.is_nibbles) return kernel;
  std::array<std::byte, 8> packed;
  // Unpacks all 16 codes once, so that the table follows from the definition of the packing.
  for (size_t i = 0; i < packed.size(); ++i)
    packed[i] = static_cast<std::byte>(2 * i | (2 * i + 1) << 4);
  const auto element = static_cast<size_t>(dtype_bytes(packed_run(*packing).dtype));
  unpack(*packing, packed.data(), packed.size() / element, kernel.values.data());
  return kernel;
}

// Scales and offsets of consecutive blocks.
struct BlockParameters {
  const float* scales = nullptr;
  const float* offsets = nullptr;  // null without offsets
  std::array<float, 2 * kParameters> buffer;
};

class RowDecoder {
 public:
  RowDecoder(const CodedRows& rows, const HeldBytes& held)
      : rows_(rows), codes_(rows.codes, held), held_(held), kernel_(code_kernel(rows.codes)) {
    // Twice the values of f4_e2m1 are integers, too.
    const float factor = holds_packing(rows_.codes, Packing::f4_e2m1) ? 2.0f : 1.0f;
    for (size_t i = 0; i < integers_.size(); ++i)
      integers_[i] = static_cast<int8_t>(factor * kernel_.values[i]);
    integer_scale_ = 1 / factor;
  }

  bool decode(const Segment& segment) const {
    for (int64_t done = 0; done < segment.count;) {
      // As many blocks as the parameter buffers have room for.
      const int64_t column = segment.column + done;
      // The first block can be partial, so its columns before the segment reduce the room.
      const int64_t room = kParameters * rows_.block_columns - column % rows_.block_columns;
      const Segment part{segment.row, column, std::min(room, segment.count - done),
                         segment.values + done};
      if (!(rows_.table ? look_up(part) : dequantize(part))) return false;
      done += part.count;
    }
    return true;
  }

  // Multiplies as many rows at a time as the parameter buffers have room for.
  bool dot(const RowRange& range, const CodedToken& token, float* out) const {
    const int64_t blocks = (rows_.columns + rows_.block_columns - 1) / rows_.block_columns;
    const bool shares_blocks = rows_.block_rows > 1 || rows_.table;
    if (shares_blocks || blocks > kParameters) return dot_parts(range, token, out);
    const int64_t band = kParameters / blocks;
    for (int64_t r = 0; r < range.count; r += band) {
      const RowRange rows{range.first + r, std::min(band, range.count - r)};
      if (!dot_band({rows.first, 0, rows_.columns}, rows.count, token, out + r)) return false;
    }
    return true;
  }

 private:
  int64_t first_code(const Segment& part) const { return part.row * rows_.columns + part.column; }

  int64_t first_block(const Segment& part) const {
    const int64_t per_row = (rows_.columns + rows_.block_columns - 1) / rows_.block_columns;
    return part.row / rows_.block_rows * per_row + part.column / rows_.block_columns;
  }

  int64_t block_count(const Segment& part) const {
    return (part.column + part.count - 1) / rows_.block_columns -
           part.column / rows_.block_columns + 1;
  }

  // Calls visit(block, first value, count) for the parts of a segment, with blocks counted from 0.
  template <class Visit>
  void for_each_block(const Segment& part, Visit visit) const {
    int64_t offset = part.column % rows_.block_columns;
    for (int64_t i = 0, block = 0; i < part.count; ++block, offset = 0) {
      const int64_t count = std::min(rows_.block_columns - offset, part.count - i);
      visit(block, part.values + i, count);
      i += count;
    }
  }

  // Reads the parameters of `count` blocks from the segment's first on.
  bool read_parameters(const Segment& part, int64_t count, BlockParameters& blocks) const {
    const int64_t first = first_block(part);
    float* buffer = blocks.buffer.data();
    blocks.scales = NumberReader(*rows_.scales, held_).get(first, count, buffer);
    if (!rows_.offsets) return blocks.scales != nullptr;
    blocks.offsets = NumberReader(*rows_.offsets, held_).get(first, count, buffer + kParameters);
    return blocks.scales != nullptr && blocks.offsets != nullptr;
  }

  bool dequantize(const Segment& part) const {
    BlockParameters blocks;
    if (!read_parameters(part, block_count(part), blocks)) return false;
    // The kernels require codes that start at a block and at a byte.
    if (part.column % rows_.block_columns == 0 && (kernel_.is_nibbles || kernel_.is_bytes)) {
      const std::byte* codes = codes_.bytes(first_code(part), part.count);
      if (codes != nullptr) {
        decode_blocks({codes, part.count, rows_.block_columns, blocks.scales, blocks.offsets},
                      part);
        return true;
      }
    }
    if (!codes_.read(first_code(part), part.count, part.values)) return false;
    for_each_block(part, [&](int64_t block, float* values, int64_t size) {
      const float scale = blocks.scales[block];
      const float offset = blocks.offsets ? blocks.offsets[block] : 0.0f;
      for (int64_t i = 0; i < size; ++i) values[i] = (values[i] - offset) * scale;
    });
    return true;
  }

  void decode_blocks(const CodeBlocks& blocks, const Segment& part) const {
    if (kernel_.is_nibbles)
      decode_nibble_blocks(blocks, kernel_.values, part.values);
    else
      decode_byte_blocks(blocks, kernel_.is_signed, part.values);
  }

  bool look_up(const Segment& part) const {
    // are_indices() allows at most 256 entries, and every code is a valid index, so nothing is
    // checked here.
    std::array<float, 256> table;
    if (!codes_.read(first_code(part), part.count, part.values)) return false;
    // for_each_block() cannot stop, so missing bytes are noted and reported at the end.
    bool complete = true;
    const int64_t first = first_block(part);
    for_each_block(part, [&](int64_t block, float* values, int64_t size) {
      complete &= read_table(first + block, table.data());
      look_up_values(table.data(), values, size);
    });
    return complete;
  }

  bool read_table(int64_t block, float* table) const {
    return NumberReader(*rows_.table, held_).read(block * rows_.entries, rows_.entries, table);
  }

  // Multiplies rows one by one, in parts of as many blocks as the buffers have room for.
  bool dot_parts(const RowRange& range, const CodedToken& token, float* out) const {
    const int64_t room = (rows_.table ? 1 : kParameters) * rows_.block_columns;
    for (int64_t r = 0; r < range.count; ++r) {
      out[r] = 0;
      for (int64_t column = 0; column < rows_.columns; column += room) {
        const Segment part{range.first + r, column, std::min(room, rows_.columns - column)};
        float sum = 0;
        if (!(rows_.table ? look_up_band(part, token, &sum) : dot_band(part, 1, token, &sum)))
          return false;
        out[r] += sum;
      }
    }
    return true;
  }

  // Multiplies the same columns of `rows` rows, the first of which is the segment's.
  bool dot_band(const Segment& part, int64_t rows, const CodedToken& token, float* out) const {
    const std::byte* codes =
        codes_.bytes(first_code(part), (rows - 1) * rows_.columns + part.count);
    BlockParameters parameters;
    if (codes == nullptr || !read_parameters(part, rows * block_count(part), parameters))
      return false;
    const CodeBlockRows band{
        {codes, part.count, rows_.block_columns, parameters.scales, parameters.offsets}, rows};
    if (token.format == ActivationFormat::f32)
      dot_rows(band, values_of(token, part.column), out);
    else
      dot_rows(band, codes_of(token, part.column), out);
    return true;
  }

  bool look_up_band(const Segment& part, const CodedToken& token, float* out) const {
    constexpr float kOne = 1;
    NibbleTable table;
    const std::byte* codes = codes_.bytes(first_code(part), part.count);
    if (codes == nullptr || !read_table(first_block(part), table.data())) return false;
    round_values(rows_.rounded, table.data(), table.size());
    dot_nibble_rows({{codes, part.count, part.count, &kOne, nullptr}, 1}, table,
                    values_of(token, part.column), out);
    return true;
  }

  // The token from a column on, which begins a group.
  static TokenValues values_of(const CodedToken& token, int64_t column) {
    return {token.values.data() + column, token.sums.data() + column / kTokenGroup};
  }
  static TokenCodes codes_of(const CodedToken& token, int64_t column) {
    const int64_t group = column / kTokenGroup;
    return {token.codes.data() + column, token.scales.data() + group, token.sums.data() + group};
  }

  void dot_rows(const CodeBlockRows& rows, TokenValues token, float* out) const {
    kernel_.is_nibbles ? dot_nibble_rows(rows, kernel_.values, token, out)
                       : dot_byte_rows(rows, kernel_.is_signed, token, out);
  }

  void dot_rows(const CodeBlockRows& rows, TokenCodes token, float* out) const {
    if (!kernel_.is_nibbles) return dot_byte_rows(rows, kernel_.is_signed, token, out);
    dot_nibble_rows(rows, integers_, token, out);
    for (int64_t r = 0; r < rows.rows; ++r) out[r] *= integer_scale_;
  }

  const CodedRows& rows_;
  NumberReader codes_;
  const HeldBytes& held_;
  CodeKernel kernel_;
  NibbleIntegers integers_;
  float integer_scale_ = 1;
};

// True if a dot kernel can read each row of these codes.
bool has_dot_kernel(const CodedRows& rows) {
  const CodeKernel kernel = code_kernel(rows.codes);
  if (!kernel.is_nibbles && (!kernel.is_bytes || rows.table)) return false;
  // The entries of a table are rounded once, other values one by one.
  if (rows.rounded != DType::f32 && !rows.table) return false;
  const int64_t bits = kernel.is_nibbles ? 4 : 8;
  const bool begins_at_bytes = rows.codes.first * bits % 8 == 0 && rows.columns * bits % 8 == 0;
  const bool keeps_groups =
      rows.block_columns % kTokenGroup == 0 || rows.block_columns >= rows.columns;
  return begins_at_bytes && keeps_groups && (!rows.table || rows.entries == 16);
}

}  // namespace

bool StoredNumbers::are_indices(int64_t entries) const {
  const auto* packing = std::get_if<Packing>(&form);
  const bool is_unsigned = packing != nullptr && *packing >= Packing::u1 && *packing <= Packing::u8;
  return is_unsigned && entries <= 256 && (int64_t{1} << code_bits(*packing)) <= entries;
}

bool decode_rows(const CodedRows& rows, const HeldBytes& held, int64_t begin, int64_t count,
                 float* to) {
  const RowDecoder decoder(rows, held);
  for (int64_t at = begin, end = begin + count; at < end;) {
    const int64_t column = at % rows.columns;
    const Segment segment{at / rows.columns, column, std::min(rows.columns - column, end - at),
                          to + (at - begin)};
    if (!decoder.decode(segment)) return false;
    at += segment.count;
  }
  round_values(rows.rounded, to, static_cast<size_t>(count));
  return true;
}

// Tables have no integer values. The integers of f4_e2m1 are twice its values, and the kernels
// would subtract an offset only once.
bool rounds_tokens(const CodedRows& rows) {
  const bool has_integers =
      !rows.table && !(rows.offsets && holds_packing(rows.codes, Packing::f4_e2m1));
  return has_integers && has_dot_kernel(rows);
}

std::optional<CodedToken> arrange_token(const CodedRows& rows, const float* token,
                                        ActivationFormat format) {
  if (!has_dot_kernel(rows)) return std::nullopt;
  return arranged({token, static_cast<size_t>(rows.columns)},
                  rounds_tokens(rows) ? format : ActivationFormat::f32,
                  code_kernel(rows.codes).is_nibbles);
}

bool dot_coded_rows(const CodedRows& rows, const HeldBytes& held, const RowRange& range,
                    const CodedToken& token, float* out) {
  return RowDecoder(rows, held).dot(range, token, out);
}

}  // namespace moec
