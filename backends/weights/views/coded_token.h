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
  int64_t plane = 0;                   // elements from one plane to the next
  std::vector<float> values;           // of f32, in planes
  std::vector<int16_t> byte_factors;   // of int8, for codes of 8 bits
  std::vector<int8_t> nibble_factors;  // of int8, for codes of 4 bits, in planes
  std::vector<int32_t> lane_sums;      // of nibble_factors
  std::vector<float> scales;           // of int8, of each group
  std::vector<float> sums;             // of each group
};

// Arranges activations in a format, for codes of this number of bits. Infinite and undefined
// activations make their group NaN in int8.
CodedToken arranged(std::span<const float> token, ActivationFormat format, int bits);

}  // namespace moec
