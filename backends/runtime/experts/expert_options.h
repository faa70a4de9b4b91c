// How an export keeps a part of its experts in slots, and what that did.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/residency/expert_policy.h"
#include "backends/residency/first_steps.h"
#include "backends/residency/hit_window.h"
#include "ir/base/enum_table.h"

namespace moec {

// What becomes of an expert that tokens chose and that is missing, where all slots of its layer are
// taken. As long as a slot is free, it is read.
enum class OnMiss : uint8_t {
  load,  // it is read in place of another: exact
  skip,  // the step goes without it, and it is read for later steps
  stop,  // error session.expert_missing
};
constexpr auto enum_names(OnMiss) { return name_table<OnMiss>({"load", "skip", "stop"}); }

// When missing experts are read.
enum class ExpertReads : uint8_t {
  serial,   // each when the executor asks for it, one at a time
  ahead,    // all of a step when its layer begins
  foresee,  // and those that the next layer is likely to want, while this one runs
};
constexpr auto enum_names(ExpertReads) {
  return name_table<ExpertReads>({"serial", "ahead", "foresee"});
}

struct ExpertStoreOptions {
  int64_t capacity = 0;  // slots of each layer, at most as many as it has experts
  uint64_t memory_bytes =
      0;  // with capacity 0: as many slots as fit, the same number for each layer
  PolicyKind policy = PolicyKind::lru;
  std::vector<ExpertId> pinned;  // with PolicyKind::pinned: the most wanted of each layer first
  OnMiss on_miss = OnMiss::load;
  ExpertReads reads = ExpertReads::ahead;  // foresee: with OnMiss::load only
  // Of each layer, the first ones of `pinned`; 0: as many as leave a token's other experts room.
  int64_t pin_top_k = 0;
  int64_t top_k = 0;  // experts that a token takes; 0: as in the first form of the export
  // A file of what an earlier run had in its slots (cache_state.h), with which they begin where it
  // exists; empty: none.
  std::string state;
  // A file of experts to begin with (prepacked_file.h), which are pinned as it says; empty: none.
  std::string prepacked;
  // Told when tokens begin to choose other experts than before. It must not call the store.
  std::function<void(const DomainChange&)> on_change;
};

// What was in the slots before the first step.
struct WarmStart {
  int64_t experts = 0;
  uint64_t bytes = 0;  // that were read
  double seconds = 0;  // for that
  FirstStepCounts first;
};

struct ExpertStoreCounts {
  int64_t hits = 0, misses = 0;       // chosen experts of a step that were there, and that were not
  int64_t skipped = 0;                // misses that a step went without
  int64_t foreseen = 0, in_vain = 0;  // reads that foresee() began: of misses, and of no use
  uint64_t bytes_read = 0;
  double wait_seconds = 0;         // of the executor for reads
  double routed = 0, dropped = 0;  // sums of routing weights: chosen, and those of skipped experts
  double hit_rate() const;
  double dropped_share() const;  // of what was routed
};

}  // namespace moec
