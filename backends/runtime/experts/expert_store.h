// Expert cache of an export: a fixed number of slots per layer, filled from the files while the
// layer runs.
//
// begin_layer() receives the routing weights of a step. Loader threads read the missing experts in
// the order in which the step uses them, before those that were prefetched for later layers. The
// executor acquires one expert at a time and waits if it is still being read. Experts that the step
// still needs are evicted last, so results do not depend on the number of slots.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/reference/rows.h"
#include "backends/residency/cache_state.h"
#include "backends/residency/expert_policy.h"
#include "backends/residency/first_steps.h"
#include "backends/residency/hit_window.h"
#include "backends/runtime/experts/expert_loader.h"
#include "backends/runtime/experts/expert_places.h"
#include "backends/runtime/experts/prefetch_depth.h"
#include "backends/runtime/experts/prepacked_file.h"
#include "backends/runtime/experts/slot_arena.h"
#include "backends/weights/views/weight_pager.h"
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
  prefetch,  // as `ahead`, and likely misses of the next layers while this layer runs
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
  int64_t read_calls = 0;          // ExpertLoader::load()
  double wait_seconds = 0;         // time that the executor waited for reads
  double routed = 0, dropped = 0;  // routing weights: sum of chosen experts, sum of skipped ones
  double hit_rate() const;
  double dropped_share() const;  // dropped / routed
};

class ExpertStore : public WeightPager {
 public:
  // Fills the slots from a state or a prepacked file if the options name one; otherwise, the slots
  // start empty. Errors: those of ExpertPlaces, SlotArena, PayloadFile, read_cache_state() and
  // PrepackedFile; session.capacity (the memory is too small for one expert per layer);
  // session.pin_top_k (the pinned experts leave no room for a token's other experts); session.state
  // and session.prepacked (the file is from another export).
  static Result<std::unique_ptr<ExpertStore>> open(const Manifest& manifest,
                                                   const std::string& folder,
                                                   const ExpertStoreOptions& options);
  ~ExpertStore() override;

  // Prepares the experts of `layer` for a step. `weights` has a row per token and a column per
  // expert. With OnMiss::skip, sets the weights of skipped experts to 0; if the router normalises
  // its weights, also rescales the token's remaining weights to preserve the sum. Error:
  // session.expert_missing.
  Status begin_layer(int64_t layer, Rows& weights);

  // Prefetches the experts with nonzero `weights`, the predicted routing weights of the next step
  // of `layer`, which is `distance` MoE layers after the current one. `distance` is from 1 to
  // prefetch_depth().
  void prefetch(int64_t layer, const Rows& weights, size_t distance);
  // The number of layers for which predictions are wanted (prefetch_depth.h); 0: prefetching is
  // off.
  size_t prefetch_depth() const;

  int64_t capacity() const { return capacity_; }  // slots per layer
  // Returns true if the expert is in a slot or is being read into one.
  bool holds(ExpertId key) const;
  uint64_t arena_bytes() const { return arena_.bytes(); }
  // Bytes of all slots that have ever been filled. The system has not allocated memory for the
  // other slots.
  uint64_t used_bytes() const;
  ExpertStoreCounts counts() const;
  // Returns the cost of the warm start; absent if the slots started empty.
  std::optional<WarmStart> start() const;
  // Returns the changes of the distribution of chosen experts so far.
  std::vector<DomainChange> changes() const;
  // Notes that open() produced.
  const Diagnostics& notes() const { return start_.notes; }

  // Returns the contents of the slots and the counters of the policies.
  CacheState state() const;
  // Writes state() to ExpertStoreOptions::state, if set. An existing file is overwritten only if it
  // is a state of this export. Errors: those of write_user_file(), those of reading the existing
  // state.
  Status save_state() const;

  std::optional<size_t> unit_of(const std::string& path, uint64_t offset,
                                uint64_t bytes) const override;
  // Errors: weights.read, weights.file_changed; session.capacity (the step needs more experts at
  // once than there are slots in the layer).
  Result<const HeldBytes*> acquire(size_t unit) override;
  void release(size_t unit) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Expert;
  struct Layer;

  ExpertStore();
  Status place_experts(const Manifest& manifest, const std::string& folder);
  void add_expert(const PlacedExpert& placed);
  Status allot(const Manifest& manifest);
  int64_t room_for_pins() const;
  Status check_pins() const;
  void pin(const std::vector<ExpertId>& wanted);
  Status warm_up();
  Status warm_from_state();
  Status warm_from_pack();
  Result<CacheState> read_state() const;
  Result<std::vector<Expert*>> find_experts(const std::vector<ResidentExpert>& residents,
                                            const std::string& file);
  Status fill_slots(const std::vector<ResidentExpert>& residents, int64_t step,
                    const PrepackedFile* pack);
  void read_pack(const PrepackedFile& pack, Layer& layer, Expert& expert, size_t slot);
  Layer* find_layer(int64_t number);
  double choose(Layer& layer, const Rows& weights);
  void count(Layer& layer);
  void watch(const Layer& layer, int64_t tokens, int64_t hits);
  void end_prefetch(Expert& expert, bool chosen);
  Status resolve_misses(Layer& layer, Rows& weights);
  void skip(Layer& layer, const std::vector<size_t>& skipped, Rows& weights);
  void read_ahead(Layer& layer);
  bool start_read(Layer& layer, Expert& expert, bool needed);
  void read(Layer& layer, Expert& expert, size_t slot);
  void begin_turn(const Layer& layer);
  void submit(const Layer& layer);
  std::optional<size_t> take_slot(Layer& layer, bool needed);
  std::optional<ExpertId> victim(Layer& layer, bool needed);
  std::vector<ExtentRead> place(Layer& layer, Expert& expert, size_t slot);
  void note_read(Expert& expert, Status status);
  bool is_reading(const Layer& layer) const;
  tl::unexpected<Diagnostics> too_few_slots(const Expert& expert) const;

  ExpertStoreOptions options_;
  struct {
    std::string family;
    int64_t top_k = 0;
    bool normalises = false;
  } model_;
  struct {
    std::optional<WarmStart> counts;  // without `first`
    std::optional<FirstSteps> first;
    Diagnostics notes;
  } start_;
  struct {
    HitWindow window;
    std::vector<DomainChange> changes;
  } watch_;
  int64_t capacity_ = 0;
  ExpertPlaces places_;
  std::vector<PayloadFile> files_;
  SlotArena arena_;
  std::vector<Layer> layers_;
  std::vector<Expert> experts_;  // in the order of ExpertPlaces::experts()
  ExpertUnits units_;
  struct {
    ExpertStoreCounts counts;
    std::vector<SlotLoad> queued;    // of one layer, until submit()
    int64_t passes = 0, layer = -1;  // passes through all layers so far; index of the current layer
    PrefetchDepth depth;
  } run_;
  mutable std::mutex mutex_;  // guards the mutable state
  std::condition_variable changed_;
  // Last member: its threads write to the members above, so it must be destroyed first.
  std::unique_ptr<ExpertLoader> loader_;
};

}  // namespace moec
