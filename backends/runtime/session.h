// Runs an exported folder step by step, knowing only its manifest: the reference of what a runtime
// has to do. Shards are the emitted files, read back; ops run in the reference executor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/reference/reference.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// A row-major matrix: one row a token.
struct Rows {
  int64_t columns = 0;
  std::vector<float> data;

  std::span<const float> row(int64_t index) const {
    return std::span(data).subspan(static_cast<size_t>(index * columns),
                                   static_cast<size_t>(columns));
  }
};

// The keys of one layer, [kv_heads, rows, head_dim], its values, with value_dim, and its history,
// where it has one: always as many rows as the manifest says, the newest last.
struct LayerCache {
  int64_t kv_heads = 0, rows = 0;
  std::vector<float> k, v;
  Rows history;
};

// Rows that a step added to a layer's caches, [kv_heads, count, head_dim], and to its history.
struct NewRows {
  std::vector<float> k, v;
  Rows history;
};

// Up to T tokens on their way through the schedule.
struct Chunk {
  int64_t position = 0;  // of the first token
  int64_t count = 0;     // real tokens; the width's other places are padding
  size_t width = 0;      // index into build.tokens
  std::map<std::string, Rows> edges;
  Rows logits;                          // [count, vocab], filled slice by slice
  std::map<int64_t, NewRows> new_rows;  // by layer
};

// Sees values inside the shards while a step runs.
using StepProbe = std::function<void(const manifest::Shard&, std::string_view, const Tensor&)>;

// Reads the graph of one token width of a shard in the folder back into the IR. The runtime knows
// no formats: frontends/formats/read_shard.h is the reader of all that there are.
using ShardReader = std::function<Result<LoadedShard>(
    const Manifest& manifest, const std::string& folder, const manifest::Width& width)>;

struct SessionOptions {
  Precision precision = Precision::f32;
  bool skip_idle_groups = true;  // host routing: do not run expert groups that no token chose
};

class Session {
 public:
  // Errors: those of read_manifest(); session.part_of_a_model for a trial export of some layers.
  static Result<Session> open(const std::string& folder, ShardReader read_shard,
                              const SessionOptions& options = {});

  Session(Session&&) noexcept;
  ~Session();

  const Manifest& manifest() const;

  // Feeds tokens at the current position, in chunks of the exported widths; the result is the
  // logits of each. Errors: session.context_full, session.token (outside the vocabulary).
  Result<Rows> feed(std::span<const int64_t> tokens, const StepProbe& probe = {});
  // The logits of tokens that go through all steps at once, whatever was fed before. Errors: those
  // of feed(), and session.width where no exported width takes so many.
  Result<Rows> pass(std::span<const int64_t> tokens, int64_t position, const StepProbe& probe = {});
  // Starts a new sequence.
  void reset();
  int64_t position() const;
  // Expert groups that were skipped because no token chose one of their experts.
  int64_t skipped_steps() const;

  // The parts of feed(), for validation. A chunk holds the embedding edge when it begins.
  Result<Chunk> begin_chunk(std::span<const int64_t> tokens, int64_t position);
  Status run_step(size_t step, Chunk& chunk, const StepProbe& probe = {});
  LayerCache& cache(int64_t layer);
  // How many of `remaining` tokens the next chunk takes: all where no cache leads to the next one.
  int64_t chunk_size(int64_t remaining) const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moec
