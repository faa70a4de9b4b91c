// The experts of an export that are in memory: a fixed number of slots for each layer, filled from
// the files while the layer runs.
//
// begin_layer() tells which experts the tokens of a step chose. Those that are missing are read in
// the order in which the step asks for them, on threads of the loader; the executor, which asks for
// one expert after the other, waits for those that are not there yet. An expert that is in use, or
// that the step still needs, leaves its slot last, so that any number of slots gives the same
// results.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/residency/expert_policy.h"
#include "backends/runtime/expert_loader.h"
#include "backends/runtime/expert_places.h"
#include "backends/runtime/rows.h"
#include "backends/runtime/slot_arena.h"
#include "backends/weights/weight_pager.h"
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
  std::vector<ExpertKey> pinned;  // with PolicyKind::pinned: the most wanted of each layer first
  OnMiss on_miss = OnMiss::load;
  ExpertReads reads = ExpertReads::ahead;  // foresee: with OnMiss::load only
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

class ExpertStore : public WeightPager {
 public:
  // Reads no expert. Errors: those of ExpertPlaces, SlotArena and PayloadFile; session.capacity
  // (the memory does not hold one expert of each layer).
  static Result<std::unique_ptr<ExpertStore>> open(const Manifest& manifest,
                                                   const std::string& folder,
                                                   const ExpertStoreOptions& options);
  ~ExpertStore() override;

  // The experts of the layer are about to run for tokens with these routing weights, one row a
  // token, one column an expert. With OnMiss::skip the weights of skipped experts become 0, and
  // those of a token's other experts grow so that their sum stays, where the router normalises its
  // weights. Errors: session.expert_missing.
  Status begin_layer(int64_t layer, Rows& weights);

  // With ExpertReads::foresee: tokens are likely to want these experts when the layer begins next.
  void foresee(int64_t layer, const Rows& weights);
  bool foresees() const {
    return options_.reads == ExpertReads::foresee && options_.on_miss == OnMiss::load;
  }

  int64_t capacity() const { return capacity_; }  // slots of each layer
  uint64_t arena_bytes() const { return arena_.bytes(); }
  // Of the slots that have held an expert; the others take no memory.
  uint64_t used_bytes() const;
  ExpertStoreCounts counts() const;

  std::optional<size_t> unit_of(const std::string& path, uint64_t offset,
                                uint64_t bytes) const override;
  // Errors: weights.read, weights.file_changed; session.capacity (the step needs more experts at
  // once than the layer has slots).
  Result<const HeldBytes*> acquire(size_t unit) override;
  void release(size_t unit) override;

 private:
  struct Expert;
  struct Layer;
  struct Unit {  // what an expert has in one file
    size_t expert = 0, file = 0;
  };

  ExpertStore();
  Status place_experts(const Manifest& manifest, const std::string& folder);
  void add_expert(const PlacedExpert& placed);
  Status allot(const Manifest& manifest);
  Layer* find_layer(int64_t number);
  double choose(Layer& layer, const Rows& weights);
  void count(Layer& layer);
  Status meet_misses(Layer& layer, Rows& weights);
  void skip(Layer& layer, const std::vector<size_t>& skipped, Rows& weights);
  void read_ahead(Layer& layer);
  bool start_read(Layer& layer, Expert& expert, bool needed);
  void read(Layer& layer, Expert& expert, size_t slot);
  std::optional<size_t> take_slot(Layer& layer, bool needed);
  std::optional<ExpertKey> leaving(Layer& layer, bool needed);
  std::vector<StretchRead> place(Layer& layer, Expert& expert, size_t slot);
  void note_read(Expert& expert, Status status);
  bool is_reading(const Layer& layer) const;
  tl::unexpected<Diagnostics> too_few_slots(const Expert& expert) const;

  ExpertStoreOptions options_;
  bool normalises_ = false;
  int64_t capacity_ = 0;
  ExpertPlaces places_;
  std::vector<PayloadFile> files_;
  SlotArena arena_;
  std::vector<Layer> layers_;
  std::vector<Expert> experts_;  // as ExpertPlaces has them
  std::vector<Unit> units_;
  // By file and first byte: the end of the stretch, and its unit.
  std::map<std::pair<size_t, uint64_t>, std::pair<uint64_t, size_t>> stretches_;
  ExpertStoreCounts counts_;
  mutable std::mutex mutex_;  // of all that changes
  std::condition_variable changed_;
  std::unique_ptr<ExpertLoader> loader_;  // last: it ends before what it writes to
};

}  // namespace moec
