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

class RowDecoder {
 public:
  RowDecoder(const CodedRows& rows, const HeldBytes& held)
      : rows_(rows), codes_(rows.codes, held), held_(held) {
    if (const auto* packing = std::get_if<Packing>(&rows.codes.form)) {
      is_nibbles_ = nibble_values(*packing, values_);
      is_bytes_ = *packing == Packing::u8 || *packing == Packing::i8;
      is_signed_ = *packing == Packing::i8;
    }
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

 private:
  // Writes the value of each 4-bit code. Returns false for packings without two codes per byte.
  static bool nibble_values(Packing packing, NibbleTable& values) {
    const bool is_nibbles = packing == Packing::u4 || packing == Packing::i4 ||
                            packing == Packing::f4_e2m1 || packing == Packing::i4_excess8;
    if (!is_nibbles) return false;
    std::array<std::byte, 8> codes;
    // Unpacks all 16 codes once, so that the table follows from the definition of the packing.
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::byte>(2 * i | (2 * i + 1) << 4);
    const auto element = static_cast<size_t>(dtype_bytes(packed_run(packing).dtype));
    unpack(packing, codes.data(), codes.size() / element, values.data());
    return true;
  }

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

  bool dequantize(const Segment& part) const {
    std::array<float, kParameters> scales, offsets;
    const int64_t first = first_block(part), count = block_count(part);
    if (!NumberReader(*rows_.scales, held_).read(first, count, scales.data())) return false;
    if (rows_.offsets && !NumberReader(*rows_.offsets, held_).read(first, count, offsets.data()))
      return false;
    const float* zeros = rows_.offsets ? offsets.data() : nullptr;
    // The kernels require codes that start at a block and at a byte.
    if (part.column % rows_.block_columns == 0 && (is_nibbles_ || is_bytes_)) {
      const std::byte* codes = codes_.bytes(first_code(part), part.count);
      if (codes != nullptr) {
        decode_blocks({codes, part.count, rows_.block_columns, scales.data(), zeros}, part);
        return true;
      }
    }
    if (!codes_.read(first_code(part), part.count, part.values)) return false;
    for_each_block(part, [&](int64_t block, float* values, int64_t size) {
      const float scale = scales[static_cast<size_t>(block)];
      const float offset = zeros ? zeros[block] : 0.0f;
      for (int64_t i = 0; i < size; ++i) values[i] = (values[i] - offset) * scale;
    });
    return true;
  }

  void decode_blocks(const CodeBlocks& blocks, const Segment& part) const {
    if (is_nibbles_)
      decode_nibble_blocks(blocks, values_, part.values);
    else
      decode_byte_blocks(blocks, is_signed_, part.values);
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
      const NumberReader entries(*rows_.table, held_);
      complete &= entries.read((first + block) * rows_.entries, rows_.entries, table.data());
      look_up_values(table.data(), values, size);
    });
    return complete;
  }

  const CodedRows& rows_;
  NumberReader codes_;
  const HeldBytes& held_;
  NibbleTable values_{};
  bool is_nibbles_ = false, is_bytes_ = false, is_signed_ = false;
};

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

}  // namespace moec
