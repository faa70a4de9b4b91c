// Picks the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace moec {

struct SamplerOptions {
  double temperature = 0;  // 0: greedy, the likeliest token, lowest id among equals
  int64_t top_k = 0;       // consider only the k likeliest; 0: all
  uint64_t seed = 0;
};

// The index of the largest element, the lowest among equals.
size_t argmax(std::span<const float> values);

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}
  int64_t next(std::span<const float> logits);

 private:
  SamplerOptions options_;
  std::mt19937_64 random_;
};

}  // namespace moec
