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
struct BlockRow {
  const std::byte* codes = nullptr;
  int64_t count = 0, block = 1;
  const float* scales = nullptr;
  const float* offsets = nullptr;
};

// to[i] = (table[code i] − offset) · scale. Each byte contains two codes, the first in its low
// bits.
void decode_nibble_blocks(const BlockRow& blocks, const NibbleTable& table, float* to);
// As above, but with one code per byte; the code is the number itself.
void decode_byte_blocks(const BlockRow& blocks, bool is_signed, float* to);

// values[i] = table[values[i]], in place. Each value must be a valid index of the table.
void look_up_values(const float* table, float* values, int64_t count);

// Activations are divided into groups; the last group may be shorter.
constexpr int64_t kTokenGroup = 32;

// The product kernels read codes from 32-bit lanes that hold whole codes: 8 codes of 3 or 4 bits, 4
// of 6 bits. Shifts separate them, so the activations are arranged in as many planes: element i is
// number i / planes of plane i % planes. Codes of 8 bits are widened to one lane each.
constexpr int64_t lane_codes(int bits) {
  const int64_t codes = 32 / bits;
  return bits == 8 ? 1 : bits == 3 ? 8 : bits == 6 ? 4 : codes;
}
constexpr int64_t float_planes(int bits) { return lane_codes(bits); }
// Kernels read whole vectors, so the planes are separated by this number of bytes.
constexpr int64_t kPlanePadding = 64;

// Activations of one token in float_planes().
struct TokenValues {
  const float* values = nullptr;
  int64_t plane = 0;            // elements from one plane to the next
  const float* sums = nullptr;  // of the activations of each group
};
// The same, quantized: activation = factor · scale of its group. Factors lie in [-127, 127].
struct TokenCodes {
  // For codes of 4 bits: the factors of even elements, then, `plane` bytes later, of odd ones.
  const int8_t* factors = nullptr;
  int64_t plane = 0;
  // For codes of 4 bits: lane_sums[i] is the sum of factors 8 i to 8 i + 7.
  const int32_t* lane_sums = nullptr;
  const float* scales = nullptr;
  const float* sums = nullptr;  // of the quantized activations of each group
};

// Several quantized tokens, in blocks of kTokenBlock; missing tokens of the last block may have any
// numbers. Step s of group g of token t of a block is number
// ((block · groups + g) · kGroupSteps + s) · kTokenBlock + t. A step has 4 elements of a group:
// consecutive ones or, for codes of 4 bits, every other one of 8, the even ones first; elements
// beyond the last are 0. `scales` and the sums have kTokenBlock numbers per group.
constexpr int64_t kTokenBlock = 4, kGroupSteps = kTokenGroup / 4;
struct TokenCodeBlocks {
  int64_t count = 0, groups = 0;  // tokens; groups of a token, from one block to the next
  const std::array<int8_t, 4>* factors = nullptr;
  const int32_t* factor_sums = nullptr;  // of each group
  const float* scales = nullptr;
  const float* sums = nullptr;  // factor_sums · scales
};

// Quantizes the `count` activations of a group: factor i = values[i] / scale, rounded to the
// nearest integer, ties to even, with scale = max |values| / 127. Returns the scale. It is NaN if a
// value is infinite or undefined; then, and if each is smaller than 127 times the smallest normal
// number, the factors are 0.
float quantize_group(const float* values, int64_t count, int8_t* factors);

// Rows of blocks, starting with `first`. A row begins at a byte, `row_bytes` after the previous
// one. Their scales and offsets are consecutive; null scales are 1.
struct BlockRows {
  BlockRow first;
  int64_t rows = 1;
  int64_t row_bytes = 0;
};

// Codes of 4 or 8 bits that are numbers: a code with the bits `flip` inverted is a number in two's
// complement, plus `center`.
struct LinearCodes {
  int bits = 8;
  uint8_t flip = 0;
  int center = 0;
};

// out[r] = the dot product of row r with a token: the sum of (number i − offset) · scale times
// activation i. Requires blocks of a multiple of kTokenGroup codes, or one block per row.
void dot_linear_rows(const BlockRows& rows, const LinearCodes& codes, TokenValues token,
                     float* out);
// Products of integers are summed exactly within a group, and groups are summed in f32.
void dot_linear_rows(const BlockRows& rows, const LinearCodes& codes, TokenCodes token, float* out);

// As above; number i is table[code i], of a table of 2^bits entries. `bits` is 1, 2, 3, 4, 6 or 8.
void dot_table_rows(const BlockRows& rows, int bits, const float* table, TokenValues token,
                    float* out);
// With codes of 4 bits, and entries in [-32, 31].
using NibbleIntegers = std::array<int8_t, 16>;
void dot_table_rows(const BlockRows& rows, const NibbleIntegers& table, TokenCodes token,
                    float* out);

// Products of rows with several tokens: to[t · stride + r] of row r and token t.
struct TokenProducts {
  float* to = nullptr;
  int64_t stride = 0;
};
void multiply_linear_rows(const BlockRows& rows, const LinearCodes& codes,
                          const TokenCodeBlocks& tokens, TokenProducts out);
void multiply_table_rows(const BlockRows& rows, const NibbleIntegers& table,
                         const TokenCodeBlocks& tokens, TokenProducts out);

}  // namespace moec
