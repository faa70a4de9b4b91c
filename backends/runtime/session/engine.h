// Interface of the engines that run the graphs of a session. An engine compiles one width of a
// shard to an executable, whose inputs and outputs are tensors by port name. Positions, caches and
// rows belong to the session; engines only run graphs.
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

// A compiled graph with its weights.
class Executable {
 public:
  virtual ~Executable() = default;

  // Inputs in graph order, including the ceilings of routers if GraphOptions::ceilings is set.
  virtual std::span<const NamedType> inputs() const = 0;

  // Runs the graph. `inputs` must contain a tensor for each input. Calls `probe` for every inner
  // value that the engine exposes. Errors: session.port (an input has no tensor), those of the
  // engine.
  virtual Result<NamedTensors> run(const NamedTensors& inputs, const Probe& probe) = 0;

  // Returns or sets the declared state `name`. state() returns null if the graph has no such state.
  virtual const Tensor* state(std::string_view name) const = 0;
  virtual Status set_state(std::string_view name, Tensor value) = 0;

  virtual const ExecutorMemory& memory() const = 0;
  // Makes later runs free each large weight after the op that uses it, if the engine supports that.
  virtual void release_weights_after_use() = 0;
};

// Graph of one shard of an export.
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
  bool ceilings = false;         // adds one input of ceilings per router (masked_routers.h)
  WeightPager* pager = nullptr;  // provides the weights that are paged in per run; may be null
  // Suffixes of the labels of inner values that a probe will request.
  std::vector<std::string> watched;
};

struct EngineTraits {
  std::string name;    // value of --engine
  std::string device;  // device that runs the graphs; empty: the engine has no choice of device
  std::string activations;    // how products round activations; empty: they do not
  bool edits_graphs = false;  // supports GraphOptions::ceilings and ::pager
  bool reads_halves = false;  // accepts inputs with Tensor::halves
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual const EngineTraits& traits() const = 0;
  // Succeeds if the engine can run the graphs of this export with this precision. Errors:
  // engine.format, engine.precision.
  virtual Status accepts(const Manifest& manifest, Precision precision) const = 0;
  // Compiles one width of a shard. Errors: those of reading the file and of the engine.
  virtual Result<std::unique_ptr<Executable>> compile(const ShardGraph& graph,
                                                      const GraphOptions& options) = 0;
};

}  // namespace moec
