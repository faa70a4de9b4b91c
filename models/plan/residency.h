// How many experts of each layer can stay in memory, where the rest is read when it is chosen.
#pragma once

#include <cstdint>

namespace moec {

// Of the working set that a device recommends, this share is planned with: the published figure of
// mlx-moe (its architecture document). A Mac recommends three quarters of its memory.
inline constexpr double kResidentShare = 0.71;

struct ResidentSet {
  int64_t budget_bytes = 0;  // for everything
  int64_t base_bytes = 0;    // what is there besides experts: trunk, tables, cache
  int64_t slot_bytes = 0;    // of one expert, its scales, offsets and biases included
  int64_t layers = 0;        // with experts
  int64_t experts = 0;       // of each of them
};

// Experts of each layer that fit: floor((budget - base) / (layers · slot)), at most all of them and
// at least 0. `layers` and `slot_bytes` are above 0.
int64_t resident_capacity(const ResidentSet& set);

}  // namespace moec
