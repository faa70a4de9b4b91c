#pragma once

#include <span>
#include <vector>

namespace moec {

// x / sqrt(mean of x² + eps) ∘ weight, in place; zeros stay zeros, also with an eps of 0.
void rms_norm(std::span<float> x, const std::vector<float>& weight, double eps);

}  // namespace moec
