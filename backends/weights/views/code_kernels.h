// Kernels that decode codes to f32. Google Highway selects the widest vectors of the CPU at run
// time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace moec {

using NibbleTable = std::array<float, 16>;

// A row of `count` codes in blocks of `block` codes. Each block has a scale and, unless `offsets`
// is null, an offset. The last block may be shorter.
struct CodeBlocks {
  const std::byte* codes = nullptr;
  int64_t count = 0, block = 1;
  const float* scales = nullptr;
  const float* offsets = nullptr;
};

// to[i] = (table[code i] − offset) · scale. Each byte contains two codes, the first in its low
// bits.
void decode_nibble_blocks(const CodeBlocks& blocks, const NibbleTable& table, float* to);
// As above, but with one code per byte; the code is the number itself.
void decode_byte_blocks(const CodeBlocks& blocks, bool is_signed, float* to);
// values[i] = table[values[i]], in place. Each value must be a valid index of the table.
void look_up_values(const float* table, float* values, int64_t count);

}  // namespace moec
