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

// Eight elements per entry.
const GridCodebook& iq2_xxs_grid();  // 256 entries
const GridCodebook& iq2_xs_grid();   // 512 entries
const GridCodebook& iq2_s_grid();    // 1024 entries
const GridCodebook& iq1_s_grid();    // 2048 entries, also of iq1_m
// Four elements per entry.
const GridCodebook& iq3_xxs_grid();  // 256 entries
const GridCodebook& iq3_s_grid();    // 512 entries

}  // namespace moec
