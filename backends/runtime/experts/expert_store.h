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

#include "backends/reference/rows.h"
#include "backends/residency/cache_state.h"
#include "backends/runtime/experts/expert_loader.h"
#include "backends/runtime/experts/expert_options.h"
#include "backends/runtime/experts/expert_places.h"
#include "backends/runtime/experts/prepacked_file.h"
#include "backends/runtime/experts/slot_arena.h"
#include "backends/weights/views/weight_pager.h"

namespace moec {

class ExpertStore : public WeightPager {
 public:
  // Reads the experts of a state or of a prepacked file, and no others. Errors: those of
  // ExpertPlaces, SlotArena, PayloadFile, read_cache_state() and PrepackedFile; session.capacity
  // (the memory does not hold one expert of each layer), session.pin_top_k (the pinned experts
  // leave a token's others no room), session.state (a state of other experts).
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
  // Whether the expert is in a slot, or being read into one.
  bool holds(ExpertId key) const;
  uint64_t arena_bytes() const { return arena_.bytes(); }
  // Of the slots that have held an expert; the others take no memory.
  uint64_t used_bytes() const;
  ExpertStoreCounts counts() const;
  // Nothing where the slots were empty at first.
  std::optional<WarmStart> start() const;
  // When tokens began to choose other experts than before.
  std::vector<DomainChange> changes() const;
  // What the start calls for telling.
  const Diagnostics& notes() const { return start_.notes; }

  // What is in the slots, and what the policies know of it.
  CacheState state() const;
  // Writes that to ExpertStoreOptions::state, where there is one. Errors: those of
  // write_user_file(); those of reading a state, where the file has meanwhile become another one,
  // which stays.
  Status save_state() const;

  std::optional<size_t> unit_of(const std::string& path, uint64_t offset,
                                uint64_t bytes) const override;
  // Errors: weights.read, weights.file_changed; session.capacity (the step needs more experts at
  // once than the layer has slots).
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
  Status resolve_misses(Layer& layer, Rows& weights);
  void skip(Layer& layer, const std::vector<size_t>& skipped, Rows& weights);
  void read_ahead(Layer& layer);
  bool start_read(Layer& layer, Expert& expert, bool needed);
  void read(Layer& layer, Expert& expert, size_t slot);
  std::optional<size_t> take_slot(Layer& layer, bool needed);
  std::optional<ExpertId> victim(Layer& layer, bool needed);
  std::vector<StretchRead> place(Layer& layer, Expert& expert, size_t slot);
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
    std::optional<WarmStart> counts;  // but for the first steps
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
  std::vector<Expert> experts_;  // as ExpertPlaces has them
  ExpertUnits units_;
  ExpertStoreCounts counts_;
  mutable std::mutex mutex_;  // of all that changes
  std::condition_variable changed_;
  std::unique_ptr<ExpertLoader> loader_;  // last: it ends before what it writes to
};

}  // namespace moec
