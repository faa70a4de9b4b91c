// Runs a plan shard by shard: each shard runs on all windows of a text before the next one.
#pragma once

#include <map>
#include <vector>

#include "backends/weights/calibration/calibration_index.h"
#include "frontends/measure/observer.h"
#include "models/tensors/rope.h"

namespace moec {

class WindowRun {
 public:
  // Kernels of matrix products; null: the sums of the reference executor. `plan`, `text` and
  // `products` must outlive the object.
  WindowRun(const Plan& plan, const Text& text, const Products* products = nullptr);

  // Computes the embeddings of the text, the input of the first step. Errors: those of
  // WeightReader.
  Status embed(const WeightReader& weights);

  // Prepares the shard of a step. Errors: those of Executor::create().
  Result<Executor> executor(const Shard& body, const WeightReader& weights) const {
    return Executor::create(body, weights, {.products = products_});
  }

  // Runs step `index` of the schedule on one window with an executor of the step's shard, and
  // stores the values that later steps read. Returns the shard's outputs. Errors: those of
  // Executor.
  Result<std::vector<Tensor>> run_window(size_t index, Executor& executor, int64_t window,
                                         const RunProbes& probes = {});

  // Runs step `index` of the schedule on all windows with an executor of the step's shard. Errors:
  // those of Executor and of the callbacks.
  Status step(size_t index, Executor& executor, const Observer& observer = {});

  // Number of steps of layers, which the schedule lists before those of the head.
  size_t layer_steps() const;
  // Computes the embeddings, then runs all steps of layers. Errors: those of embed() and step().
  Status layers(const WeightReader& weights, const Observer& observer);

  // Returns the values between shards, [tokens of all windows, columns], that step `next` or later
  // steps read.
  std::vector<CalibrationEdge> edges(size_t next) const;
  Rows& edge(const std::string& name) { return edges_[name]; }
  // Deletes the values that neither step `next` nor a later step reads.
  void keep_edges(size_t next);

 private:
  Tensor input(const InputBinding& binding, const std::string& port, const Type& type,
               int64_t window) const;
  Rows positions(const InputBinding& binding) const;
  void take_output(const OutputBinding& binding, const Tensor& tensor, int64_t window);

  const Plan& plan_;
  const Text& text_;
  const Products* products_;
  std::vector<RopeTable> ropes_;  // one per rotation
  std::map<std::string, Rows> edges_;
};

}  // namespace moec
