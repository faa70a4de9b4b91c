// What a session keeps, for the files that make it up: session_impl.cc opens it and takes
// tokens, run_step.cc runs a step of the schedule, prefer_resident.cc one that routes by what is
// resident.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/session/borrowed_caches.h"
#include "backends/runtime/session/router_ahead.h"
#include "backends/runtime/session/session.h"
#include "backends/weights/views/weight_reader.h"

namespace moec {

// A row of a table file, which the reader has as its only tensor.
Result<std::vector<float>> read_table_row(const WeightReader& reader, int64_t row);

// What a router did for a token.
struct RouterRun {
  int64_t layer = 0;
  Rows weights;
  std::vector<float> logits;
  bool by_scores = false;  // it chooses by something else than its logits
  std::vector<int64_t> chosen() const;
};

struct Session::Impl {
  std::string folder;
  std::shared_ptr<Engine> engine;
  SessionOptions options;
  Manifest manifest;
  std::optional<WeightReader> embedding, rope;
  Sequence sequence;
  std::shared_ptr<ExpertStore> experts;
  LoadedShards loaded{0};
  ExpertGrid grid;
  ExpertSets mask, baked, held;  // of the session, of the graphs, and of a node
  struct {
    RoutingObserver observer;
    std::optional<ResidentPreference> preference;
    PreferredCounts preferred;
    TopKChoice top_k;
    TopKCounts top_k_counts;
  } routing;
  struct {
    int64_t skipped_steps = 0, tokens = 0;
    CapacityDrops drops;
  } counts;

  bool masks() const {
    return options.maskable || !options.expert_mask.empty() || !held.layers.empty();
  }
  // The place among shard.widths of the graph for the chunk.
  size_t graph_of(const manifest::Shard& shard, const Chunk& chunk) const;
  // How many experts a token takes in a layer.
  int64_t top_k_of(int64_t layer) const;
  Status choose_form();
  Status check_engine() const;
  Status read_masks();
  Status set_mask(const ExpertSets& wanted, const std::string& what);
  Result<Executable*> executable(const manifest::Shard& shard, size_t graph);
  std::vector<std::string> watched_in(const manifest::Shard& shard) const;
  Result<Rows> rope_rows(const Chunk& chunk, const InputBinding& binding);
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
  std::vector<int64_t> preferred_experts(int64_t layer, std::span<const float> logits) const;
  Result<RouterRun> run_router(size_t step, Chunk& chunk);
  Status route_by_residents(size_t step, Chunk& chunk);
  Status route_by_confidence(size_t step, Chunk& chunk, const StepProbe& probe);
  Status run_shard(size_t step, Chunk& chunk, const StepProbe& probe);
  Result<NamedTensors> outputs_of(const manifest::Step& step, const manifest::Shard& shard,
                                  Executable& executable, Chunk& chunk, const StepProbe& probe);
  Status begin_experts(size_t step, const manifest::Shard& shard, Chunk& chunk);
  Status foresee_experts(const RouterAhead& router, const Chunk& chunk);
  Result<NamedTensors> run(const manifest::Shard& shard, Executable& executable,
                           NamedTensors& by_port, const Probe& probe) const;
  bool skip(const manifest::Step& step, const manifest::Shard& shard, Chunk& chunk);
};

}  // namespace moec
