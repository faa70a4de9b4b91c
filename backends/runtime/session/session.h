// Runs an exported folder from its manifest alone. The session is the reference implementation of a
// runtime. By default, it favours correctness over speed: it reads the emitted files back into the
// IR and runs them in the reference executor. SessionOptions::engine selects another engine.
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
#include "backends/runtime/session/expert_peers.h"
#include "backends/runtime/session/loaded_shards.h"
#include "backends/runtime/session/reference_engine.h"
#include "backends/runtime/session/session_memory.h"
#include "backends/runtime/session/top_k_choice.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// Called for each value inside a shard while a step runs, with the shard, the value's label and the
// value.
using StepProbe = std::function<void(const manifest::Shard&, std::string_view, const Tensor&)>;

// Called with the routing weights of a chunk whose first token is at `position`: a row per token, a
// column per expert, 0 for experts that the token did not choose.
using RoutingObserver = std::function<void(int64_t layer, int64_t position, const Rows& weights)>;

// Tokens whose logits a pass computes. The head of a model with a large vocabulary takes as long
// as several layers.
enum class LogitsOf : uint8_t { each, last, none };

struct SessionOptions {
  // Engine that runs the graphs; null: the reference executor. Options that the engine does not
  // support are refused.
  std::shared_ptr<Engine> engine;
  Precision precision = Precision::f32;
  bool skip_idle_groups = true;  // host routing: skips expert groups without chosen experts
  // Maximum bytes that the program uses: loaded shards with the mapped parts of their files,
  // caches, and values between ops.
  uint64_t memory_bytes = default_session_memory();
  // Experts that tokens can choose, as text or @FILE (ir/experts/expert_sets.h). Intersected with
  // the mask in the graphs. Empty: all experts.
  std::string expert_mask;
  int64_t sequences = 1;  // maximum number of live sequences, each with separate caches
  // Storage of keys and values between steps: f32 or f16. f16 rounds them, and the engine must
  // support it (EngineTraits::reads_halves). Other states of layers stay f32.
  DType cache_dtype = DType::f32;
  bool maskable = false;  // allows set_mask()
  // If set, experts are paged through slots (expert_store.h); otherwise, they are loaded with their
  // shards.
  std::optional<ExpertStoreOptions> experts;
  // Suffixes of the labels of values that probes and observers request, in shards with routers; an
  // empty suffix: all values of all shards. Engines other than the reference expose only these.
  std::vector<std::string> watched;
  TopKRequest top_k;  // selects a top-k variant of the export
  // Requires `experts`: routers prefer resident experts (cache_choice.h). Changes the results.
  std::optional<CacheBias> cache_bias;
  // Computes the experts that a node lacks, instead of masking them; may be null. Cannot be
  // combined with `experts`, `cache_bias` and exports with top-k variants.
  std::shared_ptr<ExpertPeers> peers;
};

class Session;

// Makes routers prefer resident experts.
struct ResidentPreference {
  CacheBias bias;
  std::function<bool(ExpertId)> resident;
};

// Counts of choices that a ResidentPreference changed.
struct PreferredCounts {
  CacheBias bias;
  int64_t choices = 0;  // tokens × layers
  int64_t changed = 0;  // choices that differ from the model's
};

// Succeeds if the routers of the export support a preference: the export has a cache, and the
// routers choose by logits alone and do not share a shard with attention. Error:
// session.cache_bias.
Status check_cache_bias(const Manifest& manifest);

// Returns the note session.f32_routers for an f16 run of an f32 export with routers. They compare
// rounded scores, and biases with a large common offset lose precision. An f16 export avoids both.
Diagnostics note_precision(const Manifest& manifest, Precision precision);

// Returns the note session.no_kernel for each stored form of weights that the engine holds as f32,
// because it has no kernel that reads the codes. Covers the shards that the session has loaded.
Diagnostics note_widened(const Session& session);

// A sequence that a session can continue: the caches, and the number of tokens in them.
struct Sequence {
  std::map<int64_t, LayerCache> caches;  // by layer
  int64_t position = 0;
};

class Session {
 public:
  // Opens the manifest and the tables. Shards are read when their first steps run. Errors:
  // - those of read_manifest(), read_expert_mask(), choose_top_k() and ExpertStore::open();
  // - session.part_of_a_model (a trial export of the first layers);
  // - session.stage (a cluster node without all layers; missing experts are masked instead);
  // - session.memory (the caches alone exceed the memory);
  // - session.no_experts (a mask for a model without experts);
  // - engine.format, engine.precision, engine.option (the engine does not support the export or an
  //   option);
  // - session.cache_bias;
  // - session.no_whole (peers for a folder that is not a node), session.peers (peers combined with
  //   another option), those of ExpertPeers::require().
  // Running a step can then fail with peers.bound, peers.lost and peers.bad_answer (rows that do
  // not fit).
  // With a mask, reading a shard can also fail with router.no_choice (ir/analysis/router_choice.h).
  static Result<Session> open(const std::string& folder, ShardReader read_shard,
                              const SessionOptions& options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const Manifest& manifest() const;

  // Feeds tokens at the current position, in chunks of the exported widths, and advances the
  // position. Returns the wanted logits, [tokens, vocab]. Errors: session.context_full,
  // session.token (an id outside the vocabulary), session.port, session.memory (a shard alone
  // exceeds the memory), those of reading a shard, and those of the ExpertStore.
  Result<Rows> feed(std::span<const int64_t> tokens, const StepProbe& probe = {},
                    LogitsOf wanted = LogitsOf::each);
  // Runs tokens through all steps in one chunk, with the first token at `position`. Returns the
  // wanted logits, [tokens, vocab]. Does not change the session's position. Errors: those of
  // feed(); session.width (no exported width holds that many tokens).
  Result<Rows> pass(std::span<const int64_t> tokens, int64_t position, const StepProbe& probe = {},
                    LogitsOf wanted = LogitsOf::each);
  // Sets the observer of routing weights, called for each router that runs if its graph labels the
  // weights. An empty observer ends observation.
  void observe_routing(RoutingObserver observer);
  // Sets the observer of the routing weights that routers would have without the mask of the
  // session or its node. Observes only routers in separate shards (--routing host), which then run
  // twice. An empty observer ends observation.
  void observe_wanted(RoutingObserver observer);
  // Returns the experts that tokens can choose: those of the node, of the options and of
  // set_mask(), without those that the graphs mask.
  ExpertSets available() const;
  // Returns the experts of available() that the folder has. Peers compute the others.
  ExpertSets own_experts() const;
  // Runs experts of this folder for another node, with this session's engine. Does not change the
  // sequence. Errors: peers.bad_call (shards that the folder lacks or that differ from those of
  // the caller, other numerics, rows that do not fit), those of reading and running a shard.
  Result<Rows> run_experts(ExpertCall call);
  // Returns the counts of calls so far; null without SessionOptions::peers.
  const PeerCounts* peer_counts() const;
  // Restricts later steps to these experts, intersected with the mask in the graphs. Requires
  // SessionOptions::maskable. Errors: those of check_enough().
  Status set_mask(const ExpertSets& mask);
  // Makes routers prefer resident experts in later steps; tokens then run one at a time. Requires
  // SessionOptions::maskable and an export that passes check_cache_bias().
  void prefer_resident(ResidentPreference preference);
  // Returns the counts since the preference was set; absent without a preference.
  std::optional<PreferredCounts> preferred() const;
  // Return the current choice of top-k and, for a choice by confidence, the counts of experts per
  // token so far.
  const TopKChoice& top_k() const;
  const TopKCounts& top_k_counts() const;
  // Returns the counts of dropped tokens so far; null if the export has no capacity.
  const CapacityDrops* drops() const;
  // Starts a new sequence: position 0, and empty caches.
  void reset();
  int64_t position() const;
  // Returns a sequence without tokens.
  Sequence empty_sequence() const;
  // Replaces the current sequence by another one of this export. Returns the previous sequence.
  Sequence exchange(Sequence next);
  // Truncates the sequence to its first `position` tokens; `position` must not exceed the current
  // position. Returns false and changes nothing if a token would be removed and a cache cannot
  // restore its earlier state (convolved attention).
  bool rewind(int64_t position);
  // Number of steps of expert groups that were skipped because no token chose an expert of the
  // group.
  int64_t skipped_steps() const;
  // Number of tokens that ran through the model.
  int64_t tokens_run() const;
  const EngineTraits& engine() const;
  DType cache_dtype() const;  // SessionOptions::cache_dtype
  // Returns the loaded shards and their memory use.
  const LoadedShards& loaded() const;
  // Returns the expert store; null without SessionOptions::experts. The store outlives the session
  // while the caller keeps the pointer.
  std::shared_ptr<const ExpertStore> experts() const;

  // The parts of feed(), exposed for validation. begin_chunk() looks up the embedding rows;
  // run_step() runs one step of the schedule.
  Result<Chunk> begin_chunk(std::span<const int64_t> tokens, int64_t position);
  Status run_step(size_t step, Chunk& chunk, const StepProbe& probe = {});
  LayerCache& cache(int64_t layer);
  // Returns the number of tokens in the next chunk if `remaining` tokens are left: all of them if
  // the export has no cache to carry state between chunks.
  int64_t chunk_size(int64_t remaining) const;
  // Returns the graph that runs a shard of manifest() for the chunk.
  const manifest::Width& width_of(const manifest::Shard& shard, const Chunk& chunk) const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
