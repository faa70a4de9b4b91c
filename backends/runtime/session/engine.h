// What runs the graphs of a session: an engine compiles one width of a shard to an executable,
// which takes and gives tensors by the names of the ports. The session keeps positions, caches and
// rows; an engine knows nothing of them.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/reference/reference.h"

namespace moec {

using NamedTensors = std::map<std::string, Tensor>;

struct NamedType {
  std::string name;
  Type type;
};

// A graph that is ready to run, with its weights.
class Executable {
 public:
  virtual ~Executable() = default;

  // Of the graph, in its order; with GraphOptions::ceilings those of its routers, too.
  virtual std::span<const NamedType> inputs() const = 0;

  // Runs the graph with a tensor for each of its inputs, and returns its outputs. The probe is told
  // of the values that the engine can tell of (EngineTraits::sees_all_values). Errors: session.port
  // for an input without a tensor, and those of the engine.
  virtual Result<NamedTensors> run(const NamedTensors& inputs, const Probe& probe) = 0;

  // The declared state of this name, or null; and a new value for it. An engine that runs graphs
  // without states has none.
  virtual const Tensor* state(std::string_view name) const = 0;
  virtual Status set_state(std::string_view name, Tensor value) = 0;

  virtual const ExecutorMemory& memory() const = 0;
  // From now on a large weight gives its memory back after each op that takes it, if the engine
  // can.
  virtual void release_weights_after_use() = 0;
};

// The graph of a shard of an export.
struct ShardGraph {
  const Manifest& manifest;
  const std::string& folder;
  const manifest::Shard& shard;
  size_t width = 0;  // index into Shard::widths

  const manifest::Width& file() const { return shard.widths[width]; }
};

struct GraphOptions {
  Precision precision = Precision::f32;
  uint64_t memory_limit = uint64_t{16} << 30;  // ExecutorOptions::memory_limit
  bool ceilings = false;  // the graph gets inputs of ceilings for its routers (masked_routers.h)
  WeightPager* pager = nullptr;  // has weights that are brought for each run; may be null
  // Endings of the labels of values inside the graph that a probe will want.
  std::vector<std::string> watched;
};

struct EngineTraits {
  std::string name;           // as --engine takes it
  std::string device;         // that it runs on; empty: it has no choice
  bool edits_graphs = false;  // takes GraphOptions::ceilings and ::pager
  bool sees_all_values =
      false;                  // a probe is told of all values, not only of those that are watched
  bool keeps_widths = false;  // compiling takes long: a shard stays loaded in each width that ran
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual const EngineTraits& traits() const = 0;
  // Whether it can run the graphs of this export so: engine.format, engine.precision.
  virtual Status accepts(const Manifest& manifest, Precision precision) const = 0;
  // Errors: those of reading the file and of the engine.
  virtual Result<std::unique_ptr<Executable>> compile(const ShardGraph& graph,
                                                      const GraphOptions& options) = 0;
};

}  // namespace moec
