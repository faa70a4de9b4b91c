#pragma once

#include <span>
#include <vector>

namespace moec {

// x / sqrt(mean of x² + eps) ∘ weight, in place. Zeros stay zeros, even if `eps` is 0.
void rms_norm(std::span<float> x, const std::vector<float>& weight, double eps);

}  // namespace moec
