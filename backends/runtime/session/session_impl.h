// Internal state of a session. open_session.cc opens it, session_impl.cc feeds tokens, and
// run_step.cc runs a step of the schedule. prefer_resident.cc and route_by_confidence.cc run
// routers whose choice the session changes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/runtime/session/chunk.h"
#include "backends/runtime/session/engine.h"
#include "backends/runtime/session/session.h"
#include "backends/weights/views/weight_reader.h"

namespace moec {

// Lends the caches of a session as inputs of a run, without copying. The run only reads the caches.
// Moves caches into input tensors. The destructor moves them back.
class BorrowedCaches {
 public:
  // `tensors`: inputs of a run by port name. The map must outlive this object.
  explicit BorrowedCaches(NamedTensors& tensors) : tensors_(tensors) {}
  BorrowedCaches(const BorrowedCaches&) = delete;
  BorrowedCaches& operator=(const BorrowedCaches&) = delete;
  ~BorrowedCaches();

  // Returns the tensor for `port`, which the caller must insert into `tensors` under the port's
  // name. Moves the storage of `cache` into the tensor; `cache` is empty until the destructor runs.
  // If `cache` is already lent to another port, copies it instead.
  Tensor lend(const manifest::Port& port, std::vector<float>& cache);
  Tensor lend(const manifest::Port& port, CacheValues& cache);

 private:
  template <class T>
  using Lent = std::map<std::vector<T>*, std::string>;  // the port of each lent vector

  template <class T>
  Tensor lend(const manifest::Port& port, std::vector<T>& cache, std::vector<T> Tensor::*elements,
              Lent<T>& lent) const;

  NamedTensors& tensors_;
  Lent<float> floats_;
  Lent<uint16_t> halves_;
};

// A later router, applied to the input of the current one to predict the experts of its layer. This
// works because the residual stream changes little from layer to layer.
struct RouterAhead {
  size_t step = 0;                           // index in the schedule
  size_t distance = 1;                       // 1: the next router
  std::map<std::string, std::string> edges;  // port → edge that replaces the port's own edge
};

// Reads a row of a table file. `reader` must contain the table as its only tensor.
Result<std::vector<float>> read_table_row(const WeightReader& reader, int64_t row);

// Result of a router for one token.
struct RouterRun {
  int64_t layer = 0;
  Rows weights;
  std::vector<float> logits;
  bool by_scores = false;  // the router chooses by scores that differ from its logits
  std::vector<int64_t> chosen() const;
};

struct Session::Impl {
  std::string folder;
  std::shared_ptr<Engine> engine;
  SessionOptions options;
  Manifest manifest;
  std::vector<const manifest::Shard*> shards;  // of the manifest, per step of its schedule
  struct {
    std::optional<WeightReader> embedding, rope;
  } tables;
  Sequence sequence;
  std::shared_ptr<ExpertStore> experts;
  LoadedShards loaded{0};
  ExpertGrid grid;
  ExpertSets mask;  // set for the session
  struct {
    ExpertSets baked, held;  // built into the graphs; present on this node
  } fixed_masks;
  struct {
    RoutingObserver observer, wanted;
    std::optional<ResidentPreference> preference;
    PreferredCounts preferred;
    TopKChoice top_k;
    TopKCounts top_k_counts;
  } routing;
  struct {
    std::set<std::string> absent;  // shards that peers run
    ExpertSets own;
    PeerCounts counts;
  } peers;
  struct {
    int64_t skipped_steps = 0, tokens = 0;
    CapacityDrops drops;
  } counts;

  bool masks() const {
    return options.maskable || !options.expert_mask.empty() || !fixed_masks.held.layers.empty();
  }
  // Index into shard.widths of the graph for the chunk and the current top-k variant.
  size_t graph_of(const manifest::Shard& shard, const Chunk& chunk) const;
  // Experts per token in a layer.
  int64_t top_k_of(int64_t layer) const;
  void keep_last(Chunk& chunk) const;
  // True if the step computes logits and nothing else.
  bool is_head(const manifest::Step& step) const;
  Status choose_variant();
  Status check_engine() const;
  Status read_masks();
  Status set_mask(const ExpertSets& wanted, const std::string& what);
  size_t token_widths() const { return manifest.build.tokens.size(); }
  std::string graph_name(const manifest::Shard& shard, size_t graph) const;
  Result<Executable*> executable(const manifest::Shard& shard, size_t graph);
  std::vector<std::string> watched_in(const manifest::Shard& shard) const;
  // Rows of the RoPE table for `count` tokens; empty without a table.
  Result<Rows> rope_rows(int64_t position, int64_t count) const;
  // The columns of chunk.rope that an input reads.
  Rows rotation(const Chunk& chunk, const InputBinding& binding) const;
  double masked_value() const;
  Result<Tensor> input(const InputBinding& binding, const manifest::Port& port, const Chunk& chunk,
                       BorrowedCaches& lent);
  void take_output(const OutputBinding& binding, const manifest::Shard& shard, const Tensor& tensor,
                   Chunk& chunk);
  Status put_states(const manifest::Shard& shard, Executable& executable) const;
  void take_states(const manifest::Shard& shard, const Executable& executable, Chunk& chunk);
  Probe probe_of(const manifest::Shard& shard, const Chunk& chunk, const StepProbe& probe);
  Status open_experts();
  Status open_preference();
  Status open_peers();
  void find_shards();
  // Returns the first `most` routers after `step`, bound to the input edges of the latest router up
  // to `step`. Ends before a router with an input port for which the latest router has no edge.
  std::vector<RouterAhead> routers_ahead(size_t step, const Chunk& chunk, size_t most) const;
  std::string numerics() const;
  void count_misses(const manifest::Shard& router, const Chunk& chunk, const Rows& weights);
  bool extend_call(size_t step, const manifest::Step& first, const Chunk& chunk,
                   ExpertCall& call) const;
  const manifest::Port& port_of_sum(size_t step, const Chunk& chunk) const;
  Status run_on_peer(size_t step, Chunk& chunk);
  Result<const manifest::Step*> called_step(const ExpertCall& call, const CalledShard& called,
                                            const Chunk& chunk) const;
  std::vector<int64_t> preferred_experts(int64_t layer, std::span<const float> logits) const;
  Result<RouterRun> run_router(size_t step, Chunk& chunk);
  Status route_by_residents(size_t step, Chunk& chunk);
  Status route_by_confidence(size_t step, Chunk& chunk, const StepProbe& probe);
  Status run_shard(size_t step, Chunk& chunk, const StepProbe& probe);
  Result<NamedTensors> outputs_of(const manifest::Step& step, const manifest::Shard& shard,
                                  Executable& executable, Chunk& chunk, const Probe& probe);
  Status observe_wanted(size_t step, Chunk& chunk);
  Status begin_experts(size_t step, const manifest::Shard& shard, Chunk& chunk);
  Status prefetch_experts(const RouterAhead& router, const Chunk& chunk);
  Result<NamedTensors> run(const manifest::Shard& shard, Executable& executable,
                           NamedTensors& by_port, const Probe& probe) const;
  bool is_idle(const manifest::Step& step, const manifest::Shard& shard, const Chunk& chunk) const;
  bool skip(const manifest::Step& step, const manifest::Shard& shard, Chunk& chunk);
};

}  // namespace moec
