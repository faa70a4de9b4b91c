// Palette codes: each value is replaced by the nearest of 2^bits entries of a table that a group of
// values shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/weights/encode/optimal_palette.h"
#include "ir/graph/type.h"

namespace moec {

// Encodes groups of values one after the other; keeps its tables of 16-bit patterns between them.
class PaletteEncoder {
 public:
  // `dtype` is f32, f16 or bf16: of the values and of the entries. 1 ≤ bits ≤ 8.
  PaletteEncoder(DType dtype, int bits);

  // Writes the index of each value's nearest entry, the lower one where two are equally near, and
  // returns the entries: those with the least squared error (optimal_palette.h), rounded to the
  // element type, in rising order, 2^bits of them; the last ones may be equal. Values of f32 that
  // agree in their first 16 bits stay together while the entries are searched, and have their own
  // nearest entry afterwards. The values, at least one, are finite, little-endian and need no
  // alignment.
  std::vector<float> encode(std::span<const std::byte> values, std::span<uint8_t> codes);

 private:
  void count(std::span<const std::byte> values);
  const std::vector<uint16_t>& find_patterns();
  Histogram take_histogram();
  float rounded(double entry) const;
  void encode_patterns(std::span<const std::byte> values, std::span<const float> entries,
                       std::span<uint8_t> codes);

  DType dtype_;
  int bits_;
  std::vector<uint32_t> counts_;    // of values, by their first 16 bits
  std::vector<double> sums_;        // of values of f32, by their first 16 bits
  std::vector<uint16_t> patterns_;  // that occurred last, in the order of their values
  std::vector<uint8_t> codes_;      // by the pattern of a value of 16 bits
};

// The index of the nearest of these entries, which are in rising order; the lowest one of several.
uint8_t nearest_entry(float value, std::span<const float> entries);

}  // namespace moec
