// Number of layers for which a store prefetches experts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace moec {

// Learns from the prefetched experts how far predictions are worth their reads: distance 1 is the
// next layer. Predictions get worse with the distance, because the residual stream changes in each
// layer. A wrong one costs a read and evicts an expert, so a distance is used only while at least
// half of the experts that it prefetched were chosen.
//
// Depends on the choices alone, not on measured times: the reads of near layers come first
// (ExpertLoader), so those of far layers use time in which the disk would be idle.
class PrefetchDepth {
 public:
  static constexpr size_t kMost = 3;

  // The largest distance to prefetch, from 1 to kMost.
  size_t depth() const {
    size_t distance = 1;
    while (distance < kMost && is_worth(distance + 1)) ++distance;
    return distance;
  }

  // Records the outcome of a prefetched expert; `distance` is from 1 to kMost.
  void note(size_t distance, bool chosen) {
    Outcomes& outcomes = outcomes_[distance - 1];
    ++outcomes.all;
    if (chosen) ++outcomes.chosen;
  }

  // Called once per step of the model. Old outcomes count less, so that a distance that is no
  // longer used is tried again.
  void end_step() {
    if (++steps_ % kHalfLife != 0) return;
    for (Outcomes& outcomes : outcomes_) outcomes = {outcomes.all / 2, outcomes.chosen / 2};
  }

 private:
  static constexpr int64_t kFewest = 16;    // outcomes without which a distance is not judged
  static constexpr int64_t kHalfLife = 32;  // steps

  struct Outcomes {
    int64_t all = 0, chosen = 0;
  };

  bool is_worth(size_t distance) const {
    const Outcomes& outcomes = outcomes_[distance - 1];
    return outcomes.all < kFewest || 2 * outcomes.chosen >= outcomes.all;
  }

  std::array<Outcomes, kMost> outcomes_;
  int64_t steps_ = 0;
};

}  // namespace moec
