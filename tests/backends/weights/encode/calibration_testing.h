// Random weights and inputs for the tests of calibrated codes.
#pragma once

#include <random>
#include <vector>

#include "backends/weights/encode/error_feedback.h"

namespace moec {

inline std::vector<float> seeded_normals(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline Weights seeded_weights_of(uint32_t seed, int64_t rows, int64_t columns) {
  Weights weights(rows, columns);
  weights.data = seeded_normals(seed, weights.data.size());
  return weights;
}

// Of inputs that have much in common: each is near the one before it.
inline Hessian seeded_hessian(uint32_t seed, int64_t inputs, int64_t tokens) {
  const auto size = static_cast<size_t>(inputs), count = static_cast<size_t>(tokens);
  const std::vector<float> noise = seeded_normals(seed, size * count);
  Hessian hessian = empty_hessian(inputs);
  hessian.tokens = tokens;
  std::vector<float> x(size);
  for (size_t t = 0; t < count; ++t) {
    for (size_t i = 0; i < size; ++i)
      x[i] = noise[t * size + i] * (1 + static_cast<float>(i % 5)) + (i > 0 ? 0.9F * x[i - 1] : 0);
    for (size_t i = 0; i < size; ++i)
      for (size_t j = 0; j < size; ++j) hessian.sums[i * size + j] += x[i] * x[j];
  }
  return hessian;
}

}  // namespace moec
