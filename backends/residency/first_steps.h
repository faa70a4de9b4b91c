// What a start with full slots is worth: the hits of the first tokens, beside those of slots that
// are empty at first.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "backends/residency/chosen_step.h"
#include "backends/residency/expert_cache.h"

namespace moec {

inline constexpr int64_t kFirstTokens = 32;

struct FirstStepCounts {
  int64_t tokens = 0;     // that were counted, of each layer
  int64_t uses = 0;       // experts that steps chose
  int64_t hits = 0;       // of these, resident when their step began
  int64_t cold_hits = 0;  // the same for a cache that was empty before the first token
  double hit_rate() const;
  double cold_hit_rate() const;
};

class FirstSteps {
 public:
  // Empty slots of this policy run along.
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
