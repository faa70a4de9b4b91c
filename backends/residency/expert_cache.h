// Expert cache without weights, for simulations: tracks the experts in a number of slots and evicts
// by a policy.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/residency/expert_policy.h"

namespace moec {

// Number of slots per layer, or of a pool for all layers.
struct CacheSlots {
  int64_t slots = 0;
  bool pool = false;  // one pool for all layers
};

// An expert to load and the expert that it evicts, if no slot was free.
struct ExpertLoad {
  ExpertId expert;
  std::optional<ExpertId> evicted;
  bool operator==(const ExpertLoad&) const = default;
};

class ExpertCache {
 public:
  // Pinned experts are loaded at their first use, like other experts, and then stay resident. Only
  // PolicyKind::pinned uses `pinned`.
  ExpertCache(PolicyKind kind, CacheSlots slots, std::span<const ExpertId> pinned = {});

  bool resident(ExpertId key) const;
  // Runs a step (expert_policy.h) that needs `experts` of one layer, ascending. Returns the experts
  // to load, in this order. Error: residency.slots (more experts than slots that are not pinned).
  Result<std::vector<ExpertLoad>> use(int64_t step, int64_t layer,
                                      std::span<const int64_t> experts);

 private:
  ExpertPolicy& policy_of(int64_t layer);

  PolicyKind kind_;
  CacheSlots slots_;
  std::vector<ExpertId> pinned_;
  std::map<int64_t, std::unique_ptr<ExpertPolicy>> policies_;  // by layer; a pool uses key 0
};

}  // namespace moec
