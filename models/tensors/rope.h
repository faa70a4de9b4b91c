// Rotary position embedding. With r rotated dims, base θ and i < r/2:
//   default  f_i = θ^(-2i/r)
//   linear   f_i / factor
//   llama3   by wavelength 2π/f_i: below original/high_freq_factor f_i, above
//            original/low_freq_factor f_i/factor, a blend of both between
//   yarn     a ramp over i from f_i to f_i/factor, between the dims that turn beta_fast and
//            beta_slow times over the original positions; cos and sin are multiplied by an
//            amplitude
//   longrope f_i / factor_i, by one list for contexts of up to the original positions and by
//   another
//            for longer ones; cos and sin are multiplied by that list's amplitude
// Sources: arXiv 2309.00071 (YaRN, sections 3.2 to 3.4), arXiv 2402.13753 (LongRoPE), the Llama 3.1
// release (llama3).
// Everything is computed in double and rounded once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan/model_config.h"

namespace moec {

// Whether longrope rotates by its long factors. The reference decides by the length of the text in
// each step; shards are made for one context, and the factors are those of its length.
bool has_long_factors(const RopeConfig& rope, int64_t context);

// "long factors (a context above 4096 positions)", for longrope alone; else empty.
std::string describe_factors(const RopeConfig& rope, int64_t context);

// r/2 angles per position. `context` counts with longrope alone.
std::vector<double> inverse_frequencies(const RopeConfig& rope, int64_t context = 0);

// What cos and sin are multiplied by: 1 unless scaling is yarn or longrope.
double rope_amplitude(const RopeConfig& rope, int64_t context = 0);

// What a yarn configuration with mscale_all_dim asks the scores to be multiplied by, beside their
// own scale: the square of 0.1 · mscale_all_dim · ln(factor) + 1; 1 for all others. Source: the
// DeepSeek-V2 release.
double rope_score_scale(const RopeConfig& rope);

// What the queries at a position are multiplied by where nothing is rotated: the formula is that of
// QueryTemperature. Source: arXiv 2501.19399 (the idea), the Llama 4 release (the numbers).
double query_scale(const QueryTemperature& temperature, int64_t position);

// cos and sin of positions 0 … positions-1, the whole context, row-major [positions, r/2].
struct RopeTable {
  int64_t positions = 0, width = 0;
  std::vector<float> cos, sin;
};
RopeTable rope_table(const RopeConfig& rope, int64_t positions);

}  // namespace moec
