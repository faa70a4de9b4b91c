// Runs an exported folder by its manifest alone. This is the reference for what a runtime has to
// do. By default it is not a fast one: the emitted files are read back into the IR, and the
// reference executor runs them. Another engine takes its place with SessionOptions::engine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backends/manifest/manifest.h"
#include "backends/reference/reference.h"
#include "backends/residency/cache_choice.h"
#include "backends/runtime/experts/expert_store.h"
#include "backends/runtime/session/capacity_drops.h"
#include "backends/runtime/session/chunk.h"
#include "backends/runtime/session/loaded_shards.h"
#include "backends/runtime/session/reference_engine.h"
#include "backends/runtime/session/session_memory.h"
#include "backends/runtime/session/top_k_choice.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// Called with each value inside a shard while a step runs: the shard, the value's label, the value.
using StepProbe = std::function<void(const manifest::Shard&, std::string_view, const Tensor&)>;

// Called with the routing weights that a router gave to the tokens of a chunk, of which the first
// is at `position`: one row a token, one column an expert, 0 for those that it did not choose.
using RoutingObserver = std::function<void(int64_t layer, int64_t position, const Rows& weights)>;

struct SessionOptions {
  // What runs the graphs; null: the reference executor. The session refuses what needs that one.
  std::shared_ptr<Engine> engine;
  Precision precision = Precision::f32;
  bool skip_idle_groups = true;  // with host routing: skip expert groups that no token chose
  // The most bytes that the program may take with the session: loaded shards with the mapped parts
  // of their files, caches, and values between ops.
  uint64_t memory_bytes = default_session_memory();
  // The experts that tokens can choose, beside the mask that the graphs have: text, or @FILE
  // (ir/experts/expert_sets.h).
  std::string expert_mask;
  int64_t sequences = 1;  // that are kept at a time, each with caches of its own
  bool maskable = false;  // set_mask() may be called
  // Experts come and go in slots of their own, beside the loaded shards; without it, they are
  // loaded with their shards.
  std::optional<ExpertStoreOptions> experts;
  // Endings of the labels of values inside graphs that probes and observers will ask for. The
  // reference executor tells of all values; another engine of these only.
  std::vector<std::string> watched;
  TopKRequest top_k;  // of an export with several forms of top-k: which of them runs
  // With `experts`: routers prefer those that are in slots (cache_choice.h). Not exact.
  std::optional<CacheBias> cache_bias;
};

// Routers of a session prefer the experts that are resident.
struct ResidentPreference {
  CacheBias bias;
  std::function<bool(ExpertId)> resident;
};

// What became of that.
struct PreferredCounts {
  CacheBias bias;
  int64_t choices = 0;  // tokens × layers
  int64_t changed = 0;  // of these, with other experts than the model's
};

// Whether the routers of the export can do that: they choose by their logits alone, and not in one
// shard with attention. Error session.cache_bias.
Status check_cache_bias(const Manifest& manifest);

// A note session.f32_routers where a run in f16 takes the graphs of an export in f32: its routers
// compare rounded scores, and biases that share an offset lose their digits. Those of an export in
// f16 do not.
Diagnostics note_precision(const Manifest& manifest, Precision precision);

// A sequence of tokens that a session can go on with: its caches, and how many tokens are in them.
struct Sequence {
  std::map<int64_t, LayerCache> caches;  // by layer
  int64_t position = 0;
};

class Session {
 public:
  // Opens the manifest and the tables; a shard is read when its first step runs. Errors: those of
  // read_manifest(); session.part_of_a_model for a trial export of the first layers; session.stage
  // for a node that has not all layers (a node with all of them masks the experts that it lacks);
  // session.memory
  // if the caches alone exceed the memory; those of read_expert_mask(), and session.no_experts for
  // a mask of a model without experts; those of choose_top_k(); engine.format, engine.precision and
  // engine.option for what the engine does not take; those of ExpertStore::open();
  // session.cache_bias. A mask adds router.no_choice (ir/analysis/router_choice.h) to the errors of
  // reading a shard.
  static Result<Session> open(const std::string& folder, ShardReader read_shard,
                              const SessionOptions& options = {});

  Session(Session&&) noexcept;
  ~Session();

  const Manifest& manifest() const;

  // Feeds tokens at the current position, in chunks of the exported widths, and moves the position
  // behind them. Returns their logits, [tokens, vocab]. Errors: session.context_full, session.token
  // (an id outside the vocabulary), session.port, session.memory (a shard alone exceeds the
  // memory), those of reading a shard, and those of the ExpertStore.
  Result<Rows> feed(std::span<const int64_t> tokens, const StepProbe& probe = {});
  // The logits, [tokens, vocab], of tokens that go through all steps at once, the first of them at
  // `position`. The position of the session does not move. Errors: those of feed(), and
  // session.width if no exported width takes that many tokens.
  Result<Rows> pass(std::span<const int64_t> tokens, int64_t position, const StepProbe& probe = {});
  // From now on tells of each router that runs; of those whose graphs name their weights.
  void observe_routing(RoutingObserver observer);
  // From now on tokens choose from these experts, of those that the graphs can choose. A session
  // that was opened as maskable only. Errors: those of check_enough().
  Status set_mask(const ExpertSets& mask);
  // From now on routers prefer resident experts, one token at a time, of an export that passes
  // check_cache_bias(). A session that was opened as maskable only.
  void prefer_resident(ResidentPreference preference);
  // Since that began; nothing where routers choose as the model does.
  std::optional<PreferredCounts> preferred() const;
  // Which form of top-k runs, and with a threshold how many experts tokens took so far.
  const TopKChoice& top_k() const;
  const TopKCounts& top_k_counts() const;
  // What experts dropped so far; null where the export has no capacity.
  const CapacityDrops* drops() const;
  // Starts a new sequence: position 0, and empty caches.
  void reset();
  int64_t position() const;
  // A sequence without tokens.
  Sequence empty_sequence() const;
  // Goes on with another sequence of this export, and returns the one so far.
  Sequence exchange(Sequence next);
  // Forgets the tokens from `position` on, which is at most the present one: the next token goes
  // there. False, and nothing happens, where a cache keeps no earlier state (convolved attention,
  // unless nothing is to be forgotten).
  bool rewind(int64_t position);
  // How many steps were skipped because no token chose an expert of their group.
  int64_t skipped_steps() const;
  // How many tokens have gone through the model.
  int64_t tokens_run() const;
  // What runs the graphs.
  const EngineTraits& engine() const;
  // The shards that are loaded, within the memory that is left for them.
  const LoadedShards& loaded() const;
  // The experts in memory; null without SessionOptions::experts. What it counts and has in its
  // slots can be asked for longer than there is the session.
  std::shared_ptr<const ExpertStore> experts() const;

  // The parts of feed(), for validation: begin_chunk() looks up the embedding rows, and run_step()
  // runs one step of the schedule.
  Result<Chunk> begin_chunk(std::span<const int64_t> tokens, int64_t position);
  Status run_step(size_t step, Chunk& chunk, const StepProbe& probe = {});
  LayerCache& cache(int64_t layer);
  // How many of `remaining` tokens the next chunk takes. Without a cache that carries a text from
  // chunk to chunk it takes all of them.
  int64_t chunk_size(int64_t remaining) const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
