// Measures the benefit of a warm start: the hits of the first tokens, compared with the hits of a
// cache that starts empty.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "backends/residency/chosen_step.h"
#include "backends/residency/expert_cache.h"

namespace moec {

inline constexpr int64_t kFirstTokens = 32;

struct FirstStepCounts {
  int64_t tokens = 0;     // counted tokens per layer
  int64_t uses = 0;       // experts chosen by steps
  int64_t hits = 0;       // uses of experts that were resident when the step began
  int64_t cold_hits = 0;  // `hits` of a cache that starts empty
  double hit_rate() const;
  double cold_hit_rate() const;
};

class FirstSteps {
 public:
  // Simulates a cache of this policy that starts empty.
  FirstSteps(PolicyKind kind, int64_t slots, std::span<const ExpertId> pinned);

  // Counts the step if its layer has seen fewer than kFirstTokens tokens.
  void note(const ChosenStep& step);
  const FirstStepCounts& counts() const { return counts_; }

 private:
  ExpertCache cold_;
  std::map<int64_t, int64_t> tokens_;  // by layer
  FirstStepCounts counts_;
};

}  // namespace moec
