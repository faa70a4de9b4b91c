// Options and counters of an expert store.
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

// Handling of a miss when the layer has no free slot. If a slot is free, the missing expert is
// always read.
enum class OnMiss : uint8_t {
  load,  // evicts another expert and reads this one: exact
  skip,  // drops the expert from this step and reads it for later steps
  stop,  // fails with session.expert_missing
};
constexpr auto enum_names(OnMiss) { return name_table<OnMiss>({"load", "skip", "stop"}); }

// When missing experts are read.
enum class ExpertReads : uint8_t {
  serial,    // one at a time, when the executor requests it
  ahead,     // all misses of a step, when its layer begins
  prefetch,  // as `ahead`, and likely misses of the next layer while this layer runs
};
constexpr auto enum_names(ExpertReads) {
  return name_table<ExpertReads>({"serial", "ahead", "prefetch"});
}

struct ExpertStoreOptions {
  int64_t capacity = 0;  // slots per layer, at most its number of experts
  // Used if capacity is 0: maximum bytes of all slots. Each layer gets the same number of slots.
  uint64_t memory_bytes = 0;
  PolicyKind policy = PolicyKind::lru;
  std::vector<ExpertId> pinned;  // for PolicyKind::pinned: by layer, most wanted first
  OnMiss on_miss = OnMiss::load;
  ExpertReads reads = ExpertReads::ahead;  // prefetching requires OnMiss::load
  // Experts of `pinned` to pin per layer. 0: the maximum that leaves room for a token's other
  // experts.
  int64_t pin_top_k = 0;
  int64_t top_k = 0;  // experts per token; 0: top-k of the export's first variant
  // File with the saved slots of an earlier run (cache_state.h). If the file exists, the slots are
  // filled from it before the first step. Empty: no file.
  std::string state;
  // File of experts that fill the slots before the first step, with their pins (prepacked_file.h).
  // Empty: no file.
  std::string prepacked;
  // Called when the distribution of chosen experts changes. Must not call the store.
  std::function<void(const DomainChange&)> on_change;
};

// Cost of filling the slots before the first step, and its effect on hits.
struct WarmStart {
  int64_t experts = 0;
  uint64_t bytes = 0;  // read from files
  double seconds = 0;  // spent on reading them
  FirstStepCounts first;
};

struct ExpertStoreCounts {
  int64_t hits = 0, misses = 0;         // chosen experts that were (not) resident
  int64_t skipped = 0;                  // missing experts that were left out of a step
  int64_t prefetched = 0, in_vain = 0;  // prefetched experts that were (not) chosen
  uint64_t bytes_read = 0;
  double wait_seconds = 0;         // time that the executor waited for reads
  double routed = 0, dropped = 0;  // routing weights: sum of chosen experts, sum of skipped ones
  double hit_rate() const;
  double dropped_share() const;  // dropped / routed
};

}  // namespace moec
