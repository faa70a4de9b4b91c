// Cache-aware routing: resident experts get a bonus, so that fewer experts are loaded. This changes
// the model's results.
//
// Adds bias · (largest − smallest logit) to a token's logits of resident experts, and chooses the
// experts with the largest sums. The best `keep_top` experts of the model's own choice are always
// chosen. Routing weights use the original logits, renormalised over the chosen experts if the
// family renormalises.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct CacheBias {
  double bias = 0;  // >= 0; 0 is the model's own routing
  int64_t keep_top = 1;
};

// Returns the `top_k` chosen experts, ascending. Ties go to the lower expert.
std::vector<int64_t> cache_aware_choice(std::span<const float> logits,
                                        const std::vector<bool>& resident, int64_t top_k,
                                        const CacheBias& bias);

}  // namespace moec
