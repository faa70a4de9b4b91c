// Chooses the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace moec {

struct SamplerOptions {
  double temperature = 0;  // divides the logits; 0: always the likeliest token
  int64_t top_k = 0;       // sample among the k likeliest tokens; 0: among all
  // Nucleus sampling, applied after top_k: the smallest set of likeliest tokens whose renormalised
  // probabilities sum to at least this.
  double top_p = 1;
  uint64_t seed = 0;
};

// Returns the index of the largest element; ties go to the lowest index.
size_t argmax(std::span<const float> values);

// Samples tokens. The result depends only on the options, the logits and the number of earlier
// calls. Ties go to the lower id.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}
  // Returns the id of the next token, an index into `logits`.
  int64_t next(std::span<const float> logits);

 private:
  SamplerOptions options_;
  std::mt19937_64 random_;
};

}  // namespace moec
