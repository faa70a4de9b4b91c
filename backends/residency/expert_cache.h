// A cache of experts without their weights: which experts are resident in a number of slots, and
// which of them a policy replaces. It serves simulations.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/residency/expert_policy.h"

namespace moec {

// Slots of each layer, or of all layers together.
struct CacheSlots {
  int64_t slots = 0;
  bool pool = false;  // one pool of all layers
};

// An expert that comes in, and the one whose slot it takes; none where a slot was free.
struct ExpertLoad {
  ExpertId expert;
  std::optional<ExpertId> evicted;
  bool operator==(const ExpertLoad&) const = default;
};

class ExpertCache {
 public:
  // Experts of `pinned` come in when they are used, as others do, and then stay; PolicyKind::pinned
  // alone looks at them.
  ExpertCache(PolicyKind kind, CacheSlots slots, std::span<const ExpertId> pinned = {});

  bool resident(ExpertId key) const;
  // A step (expert_policy.h): the experts of one layer that it needs, ascending. Returns those that
  // have to be loaded, in this order. Error residency.slots: they are more than there are slots
  // that no pinned expert has.
  Result<std::vector<ExpertLoad>> use(int64_t step, int64_t layer,
                                      std::span<const int64_t> experts);

 private:
  ExpertPolicy& policy_of(int64_t layer);

  PolicyKind kind_;
  CacheSlots slots_;
  std::vector<ExpertId> pinned_;
  std::map<int64_t, std::unique_ptr<ExpertPolicy>> policies_;  // by layer; a pool's is that of 0
};

}  // namespace moec
