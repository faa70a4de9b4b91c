// Activations of one token, arranged for products with rows of codes (coded_rows.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

// Number format in which a product with codes reads the activations of a token.
enum class ActivationFormat : uint8_t {
  f32,
  int8,  // rounded: per group of 32, int8 codes with one scale, max |activation| / 127
};

// Activations of one token, arranged for dot_coded_rows(): in the layout that code_kernels.h
// describes.
struct CodedToken {
  int64_t columns = 0;
  ActivationFormat format = ActivationFormat::f32;
  int64_t plane = 0;           // elements from one plane to the next
  std::vector<float> values;   // of f32, in planes
  std::vector<int16_t> codes;  // of int8, in planes, with scales
  std::vector<float> scales;
  std::vector<float> sums;  // of each group
};

// Rounds activations as ActivationFormat::int8 does. Infinite and undefined activations make their
// group NaN.
void round_token(std::span<float> token);

// Arranges activations in a format, for codes of this number of bits.
CodedToken arranged(std::span<const float> token, ActivationFormat format, int bits);

}  // namespace moec
