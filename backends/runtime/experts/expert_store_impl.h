// Internal state of an expert store. expert_store_impl.cc opens the store, expert_store_warm.cc
// fills its slots before the first step, and expert_store_step.cc fills them while layers run.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "backends/residency/expert_policy.h"
#include "backends/runtime/experts/expert_store.h"
#include "ir/base/seconds_since.h"

namespace moec {

enum class Residence : uint8_t { absent, reading, resident };

struct ExpertStore::Expert {
  ExpertId key;
  size_t layer = 0;  // index into layers_
  Residence is = Residence::absent;
  size_t slot = 0;
  int64_t tokens = 0;                                 // in the current step that chose this expert
  bool chosen = false, done = false, in_use = false;  // in the current step of its layer
  size_t prefetched = 0;  // distance of a prefetch since the last step; 0: none
  Status failure;
  std::vector<std::pair<size_t, HeldBytes>> held;  // by unit
};

struct ExpertStore::Layer {
  int64_t layer = 0;
  std::vector<size_t> experts;  // indices into experts_, in the order in which a step uses them
  uint64_t slot_bytes = 0;
  std::byte* slots = nullptr;
  std::vector<size_t> free;
  std::unique_ptr<ExpertPolicy> policy;
};

}  // namespace moec
