// A compiled model with the ports of the manifest.
#pragma once

#include <memory>
#include <vector>

#include "backends/openvino/openvino_api.h"
#include "backends/runtime/session/engine.h"

namespace moec {

class OpenVinoExecutable : public Executable {
 public:
  // `held` is what the model takes, in bytes. Error session.port: the ports of the file are not
  // those that the manifest lists for the graph.
  static Result<std::unique_ptr<Executable>> create(const ShardGraph& graph,
                                                    std::unique_ptr<OpenVinoModel> model,
                                                    uint64_t held);

  std::span<const NamedType> inputs() const override { return inputs_; }
  // The probe is told of all outputs of the model, those of the manifest and watched ones, under
  // each name that the value has.
  Result<NamedTensors> run(const NamedTensors& inputs, const Probe& probe) override;
  const Tensor* state(std::string_view) const override { return nullptr; }
  Status set_state(std::string_view name, Tensor value) override;
  const ExecutorMemory& memory() const override { return memory_; }
  void release_weights_after_use() override {}

 private:
  OpenVinoExecutable() = default;

  std::unique_ptr<OpenVinoModel> model_;
  std::vector<NamedType> inputs_, outputs_;       // in the order of the model; watched values last
  std::vector<std::vector<std::string>> labels_;  // of the outputs
  ExecutorMemory memory_;
  Place place_;
};

}  // namespace moec
