// Kernels that decode codes to f32 or multiply them by the activations of a token. Google Highway
// selects the widest vectors of the CPU at run time.
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

// Activations of one token, in groups of kTokenGroup; the last group may be shorter. For the nibble
// kernels, each whole group holds its even elements first, then its odd elements, because a shift
// separates the codes of a byte.
constexpr int64_t kTokenGroup = 32;
struct TokenValues {
  const float* values = nullptr;
  const float* sums = nullptr;  // of the activations of each group
};
// The same, quantized: activation = code · scale of its group. Codes lie in [-127, 127].
struct TokenCodes {
  const int16_t* codes = nullptr;
  const float* scales = nullptr;
  const float* sums = nullptr;  // of the quantized activations of each group
};

// Consecutive rows of blocks, starting with `first`. A row begins at a byte and at a block.
struct CodeBlockRows {
  CodeBlocks first;
  int64_t rows = 1;
};

// out[r] = the dot product of row r with a token: the sum of (table[code i] − offset) · scale times
// activation i. Requires blocks of a multiple of kTokenGroup codes, or one block per row.
void dot_nibble_rows(const CodeBlockRows& rows, const NibbleTable& table, TokenValues token,
                     float* out);
void dot_byte_rows(const CodeBlockRows& rows, bool is_signed, TokenValues token, float* out);

// Products of integers are summed exactly within a group, and groups are summed in f32.
using NibbleIntegers = std::array<int8_t, 16>;
void dot_nibble_rows(const CodeBlockRows& rows, const NibbleIntegers& table, TokenCodes token,
                     float* out);
void dot_byte_rows(const CodeBlockRows& rows, bool is_signed, TokenCodes token, float* out);

// values[i] = table[values[i]], in place. Each value must be a valid index of the table.
void look_up_values(const float* table, float* values, int64_t count);

}  // namespace moec
