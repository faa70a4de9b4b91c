// Random weights and inputs for tests of calibrated codes.
#pragma once

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "backends/weights/encode/calibrated_encoder.h"

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

// Moments of correlated inputs: each input is close to the previous one.
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

// A whole weight as a calibrated encoder stores it.
struct CalibratedWeight {
  std::vector<std::vector<std::byte>> parts;  // in the order of stored_parts()
  std::vector<std::byte> values;              // as decoded by a reader
  double nearest_error = 0, error = 0;
};

// Encodes values that arrive in tiles of `tile_bytes`.
inline Result<CalibratedWeight> encode_calibrated(const Encoding& encoding, const Type& type,
                                                  std::span<const std::byte> values,
                                                  const CalibratedInputs& inputs,
                                                  CodeForm form = CodeForm::signed_codes,
                                                  size_t tile_bytes = size_t{1} << 30) {
  MOEC_ASSIGN(auto encoder, CalibratedEncoder::create(encoding, type, inputs, form));
  CalibratedWeight weight;
  weight.parts.resize(1);
  const auto append_to = [](std::vector<std::byte>& to) {
    return [&to](std::span<const std::byte> bytes) -> Status {
      to.insert(to.end(), bytes.begin(), bytes.end());
      return {};
    };
  };
  const EncodedSink sink{append_to(weight.parts[0]), append_to(weight.values)};
  for (size_t begin = 0; begin < values.size(); begin += tile_bytes)
    MOEC_TRY(encoder.add(values.subspan(begin, std::min(tile_bytes, values.size() - begin)), sink));
  for (const StoredPart& part : stored_parts(encoding, type, form))
    if (part.part != WeightPart::codes) {
      const auto bytes = encoder.parameters(part.part);
      weight.parts.emplace_back(bytes.begin(), bytes.end());
    }
  weight.nearest_error = encoder.nearest_error();
  weight.error = encoder.error();
  return weight;
}

// Metrics of consecutive input ranges.
inline std::vector<ErrorMetric> metrics_of(std::span<const Hessian> hessians) {
  std::vector<ErrorMetric> metrics;
  int64_t first = 0;
  for (const Hessian& hessian : hessians) {
    metrics.push_back(make_metric(hessian, first));
    first += hessian.inputs;
  }
  return metrics;
}

}  // namespace moec
