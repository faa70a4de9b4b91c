// Rotary position embedding. With r rotated dims, base θ and i < r/2:
//   default  f_i = θ^(-2i/r)
//   linear   f_i / factor
//   llama3   by wavelength 2π/f_i: f_i below original/high_freq_factor, f_i/factor above
//            original/low_freq_factor, interpolated in between
//   yarn     a ramp over i from f_i to f_i/factor, between the dims that rotate beta_fast and
//            beta_slow times over the original positions; cos and sin are multiplied by an
//            amplitude
//   longrope f_i / factor_i, with one list of factors for contexts up to the original positions and
//            another for longer ones; cos and sin are multiplied by that list's amplitude
//   proportional f_i / factor for the first `share` of the pairs; f_i = 0 (no rotation) for others
// Sources: arXiv 2309.00071 (YaRN, sections 3.2 to 3.4), arXiv 2402.13753 (LongRoPE), the Llama 3.1
// release (llama3). All computations are in double, with one rounding at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/model/model_config.h"

namespace moec {

// True if longrope uses its long factors. The reference implementation decides at each step by the
// length of the text. A shard has one table for its whole context, so the context length decides
// here.
bool has_long_factors(const RopeConfig& rope, int64_t context);

// Describes longrope's choice of factors, such as "long factors (a context above 4096 positions)".
// Empty for other scalings.
std::string describe_factors(const RopeConfig& rope, int64_t context);

// The r/2 frequencies: angles in radians per position. Only longrope uses `context`.
std::vector<double> inverse_frequencies(const RopeConfig& rope, int64_t context = 0);

// The factor on cos and sin: 1 unless the scaling is yarn or longrope.
double rope_amplitude(const RopeConfig& rope, int64_t context = 0);

// An additional factor of the attention scores: with yarn and mscale_all_dim the square of 0.1 ·
// mscale_all_dim · ln(factor) + 1, otherwise 1. Source: the DeepSeek-V2 release.
double rope_score_scale(const RopeConfig& rope);

// The factor of the queries at a position (QueryTemperature). Sources: arXiv 2501.19399 (the idea),
// the Llama 4 release (the numbers), mistral4 in transformers 5.24 (`everywhere`).
double query_scale(const QueryTemperature& temperature, int64_t position);

// cos and sin of the positions 0 … positions-1 of a context, row-major [positions, r/2].
struct RopeTable {
  int64_t positions = 0, width = 0;
  std::vector<float> cos, sin;
};
RopeTable rope_table(const RopeConfig& rope, int64_t positions);

// The table of each of ModelConfig::rotations().
std::vector<RopeTable> rope_tables(const ModelConfig& model, int64_t positions);

}  // namespace moec
