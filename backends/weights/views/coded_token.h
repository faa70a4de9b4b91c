// Activations of tokens, arranged for products with rows of codes (coded_rows.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/weights/views/code_kernels.h"

namespace moec {

// Number format in which a product with codes reads the activations of a token.
enum class ActivationFormat : uint8_t {
  f32,
  int8,  // rounded: per group of 32, int8 codes with one scale, max |activation| / 127
};

// Order and format of the activations of a token, for codes of some number of bits.
struct Arrangement {
  ActivationFormat format = ActivationFormat::f32;
  int bits = 8;
  bool operator==(const Arrangement&) const = default;
};

// Activations of one token, arranged for dot_coded_rows(): in the layout that code_kernels.h
// describes.
struct CodedToken {
  int64_t columns = 0;
  ActivationFormat format = ActivationFormat::f32;
  int64_t plane = 0;               // elements from one plane to the next
  std::vector<float> values;       // of f32, in planes
  std::vector<int8_t> factors;     // of int8
  std::vector<int32_t> lane_sums;  // of int8, for codes of 4 bits
  std::vector<float> scales;       // of int8, of each group
  std::vector<float> sums;         // of each group
};

// Infinite and undefined activations make their group NaN in int8.
CodedToken arranged(std::span<const float> token, Arrangement as);

// Activations of several tokens in int8.
class CodedTokens {
 public:
  // Makes room for `count` tokens, and keeps the memory for the next ones. Codes have 4 or 8 bits.
  void reset(int64_t columns, int64_t count, int bits);

  int64_t columns() const { return columns_; }
  int64_t count() const { return count_; }
  // Blocks of tokens, which are arranged independently: set_block() may run on several threads.
  int64_t blocks() const;
  // Tokens of a block.
  int64_t tokens_in(int64_t block) const;
  // Arranges the activations [tokens_in(block), columns] of a block.
  void set_block(int64_t block, const float* tokens);

  // The tokens from a column on, which begins a group.
  TokenCodeBlocks from(int64_t column) const;

 private:
  int64_t columns_ = 0, count_ = 0, groups_ = 0;
  int bits_ = 8;
  std::vector<std::array<int8_t, 4>> factors_;
  std::vector<int32_t> factor_sums_;
  std::vector<float> scales_, sums_;
};

}  // namespace moec
