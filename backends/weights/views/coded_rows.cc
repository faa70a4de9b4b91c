#include "backends/weights/views/coded_rows.h"

#include <algorithm>
#include <array>

#include "backends/weights/views/code_kernels.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

// Maximum number of blocks whose parameters are decoded at a time: 4,096 columns in blocks of 16.
constexpr int64_t kParameters = 256;

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

CodeKernel code_kernel(const StoredNumbers& codes) {
  const auto* packing = std::get_if<Packing>(&codes.form);
  if (packing == nullptr) return {};
  CodeKernel kernel{.is_nibbles = *packing == Packing::u4 || *packing == Packing::i4 ||
                                  *packing == Packing::f4_e2m1 || *packing == Packing::i4_excess8,
                    .is_bytes = *packing == Packing::u8 || *packing == Packing::i8,
                    .is_signed = *packing == Packing::i8};
  if (kernel.is_nibbles) kernel.values = nibble_values(*packing);
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
      : rows_(rows), codes_(rows.codes, held), held_(held), kernel_(code_kernel(rows.codes)) {}

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

  void decode_blocks(const BlockRow& blocks, const Segment& part) const {
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

  const CodedRows& rows_;
  NumberReader codes_;
  const HeldBytes& held_;
  CodeKernel kernel_;
};

}  // namespace

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
