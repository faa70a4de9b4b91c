#include "backends/runtime/session/reference_engine.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backends/runtime/session/masked_routers.h"

namespace moec {
namespace {

class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(Executor executor, Place place)
      : executor_(std::move(executor)), place_(std::move(place)) {
    // Stores the inputs, because inputs() returns a span.
    const Shard& body = executor_.shard();
    for (const ValueId input : body.inputs)
      inputs_.push_back({body.values[input].name, body.type(input)});
  }

  std::span<const NamedType> inputs() const override { return inputs_; }

  Result<NamedTensors> run(const NamedTensors& inputs, const Probe& probe) override {
    MOEC_ASSIGN(const std::vector<const Tensor*> tensors, in_order(inputs));
    MOEC_ASSIGN(std::vector<Tensor> outputs, executor_.run(tensors, {.values = probe}));
    NamedTensors named;
    const std::vector<Output>& ports = executor_.shard().outputs;
    for (size_t i = 0; i < ports.size(); ++i) named[ports[i].name] = std::move(outputs[i]);
    return named;
  }

  const Tensor* state(std::string_view name) const override { return executor_.state(name); }
  Status set_state(std::string_view name, Tensor value) override {
    return executor_.set_state(name, std::move(value));
  }
  const ExecutorMemory& memory() const override { return executor_.memory(); }
  void release_weights_after_use() override { executor_.release_weights_after_use(); }

 private:
  // Returns the tensors in graph order. The executor identifies inputs by position, the session by
  // name.
  Result<std::vector<const Tensor*>> in_order(const NamedTensors& named) const {
    std::vector<const Tensor*> inputs;
    for (const NamedType& input : inputs_) {
      const auto found = named.find(input.name);
      if (found == named.end())
        return fail(
            "session.port",
            fmt::format("the file has an input '{}' that the manifest does not bind", input.name),
            "export the model again", place_);
      inputs.push_back(&found->second);
    }
    return inputs;
  }

  Executor executor_;
  std::vector<NamedType> inputs_;
  Place place_;
};

class ReferenceEngine : public Engine {
 public:
  ReferenceEngine(EngineTraits traits, ShardReader read_shard,
                  std::shared_ptr<const Products> products)
      : read_shard_(std::move(read_shard)),
        products_(std::move(products)),
        traits_(std::move(traits)) {
    traits_.edits_graphs = true;
    // Only with kernels does a run read the filled part of a cache alone.
    traits_.reads_halves = products_ != nullptr;
  }

  const EngineTraits& traits() const override { return traits_; }
  Status accepts(const Manifest&, Precision) const override { return {}; }

  Result<std::unique_ptr<Executable>> compile(const ShardGraph& graph,
                                              const GraphOptions& options) override {
    MOEC_ASSIGN(LoadedShard file, read_shard_(graph.manifest, graph.folder, graph.file()));
    // The ceilings are inputs of the graph, so they must exist before the executor is created.
    if (options.ceilings) {
      MOEC_ASSIGN(file.shard, with_ceiling_inputs(file.shard, graph.shard));
    }
    MOEC_ASSIGN(Executor executor, Executor::create(file.shard, file.weights,
                                                    {.precision = options.precision,
                                                     .memory_limit = options.memory_limit,
                                                     .pager = options.pager,
                                                     .products = products_.get(),
                                                     .watched = options.watched}));
    return std::make_unique<ReferenceExecutable>(
        std::move(executor), Place{.shard = graph.shard.name, .file = graph.file().file.path});
  }

 private:
  ShardReader read_shard_;
  std::shared_ptr<const Products> products_;
  EngineTraits traits_;
};

}  // namespace

std::shared_ptr<Engine> reference_engine(ShardReader read_shard) {
  return executor_engine({.name = "reference"}, std::move(read_shard), nullptr);
}

std::shared_ptr<Engine> executor_engine(EngineTraits traits, ShardReader read_shard,
                                        std::shared_ptr<const Products> products) {
  return std::make_shared<ReferenceEngine>(std::move(traits), std::move(read_shard),
                                           std::move(products));
}

}  // namespace moec
