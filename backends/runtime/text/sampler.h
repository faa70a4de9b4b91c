// Chooses the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace moec {

struct SamplerOptions {
  double temperature = 0;  // logits are divided by it; 0: always the likeliest token
  int64_t top_k = 0;       // sample among the k likeliest; 0: among all
  // Nucleus sampling, after top_k: the smallest set of likeliest tokens whose renormalized
  // probabilities sum to at least this.
  double top_p = 1;
  uint64_t seed = 0;
};

// The index of the largest element, the lowest among equals.
size_t argmax(std::span<const float> values);

// The tokens depend on the options and the logits alone. Of equal logits the lower id comes first.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}
  // The id of the next token, an index into `logits`.
  int64_t next(std::span<const float> logits);

 private:
  SamplerOptions options_;
  std::mt19937_64 random_;
};

}  // namespace moec
