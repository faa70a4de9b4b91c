// Palette codes: each value is replaced by the nearest of 2^bits entries of a table, which a group
// of values shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/weights/encode/optimal_palette.h"
#include "ir/graph/type.h"

namespace moec {

// Encodes groups of values in sequence; reuses its scratch arrays, indexed by 16-bit pattern,
// between groups.
class PaletteEncoder {
 public:
  // `dtype` is the type of values and entries: f32, f16 or bf16. 1 ≤ bits ≤ 8.
  PaletteEncoder(DType dtype, int bits);

  // Writes the index of each value's nearest entry (the lower one of two equally near) to `codes`.
  // Returns the entries: those with the least squared error (optimal_palette.h), rounded to the
  // element type, in ascending order. There are 2^bits; the last ones may be equal. The search for
  // entries merges f32 values that agree in their upper 16 bits; each value is then encoded
  // separately. `values` must be finite, little-endian and not empty; they need no alignment.
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
  std::vector<uint32_t> counts_;    // number of values, by their upper 16 bits
  std::vector<double> sums_;        // sum of f32 values, by their upper 16 bits
  std::vector<uint16_t> patterns_;  // patterns of the current group, ordered by value
  std::vector<uint8_t> codes_;      // by the pattern of a 16-bit value
};

// Returns the index of the nearest of these ascending entries; ties go to the lowest index.
uint8_t nearest_entry(float value, std::span<const float> entries);

}  // namespace moec
