// Codebooks of the IQ types of GGUF: the magnitudes or values of several elements per entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moec {

// A codebook. Element k of an entry is level number (entry >> (k * bits)) & (2^bits - 1).
struct GridCodebook {
  std::span<const uint16_t> entries;
  int bits = 2;
  std::span<const int8_t> levels;

  int operator()(size_t entry, int element) const {
    const int level = entries[entry] >> (element * bits) & ((1 << bits) - 1);
    return levels[static_cast<size_t>(level)];
  }
};

// Eight elements per entry: 256, 512, 1024 and 2048 entries. iq1_m also has the last one.
extern const GridCodebook kIq2XxsGrid, kIq2XsGrid, kIq2SGrid, kIq1SGrid;
// Four elements per entry: 256 and 512 entries.
extern const GridCodebook kIq3XxsGrid, kIq3SGrid;

}  // namespace moec
