// Routing that knows what is resident: experts in the cache get a bonus, so that fewer have to be
// loaded. Not the model's results.
//
// Of a token's logits, those of resident experts are raised by bias · (largest − smallest logit).
// The experts with the largest raised logits are chosen, but always the best `keep_top` of the
// model's own choice. Their weights are what the model gives them: from logits that are not raised,
// renormalised over the chosen ones where its family does that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct CacheBias {
  double bias = 0;  // at least 0; 0 is the model's own routing
  int64_t keep_top = 1;
};

// The chosen experts, ascending, of `top_k`. Of equal raised logits the lower expert is chosen.
std::vector<int64_t> cache_aware_choice(std::span<const float> logits,
                                        const std::vector<bool>& resident, int64_t top_k,
                                        const CacheBias& bias);

}  // namespace moec
