// Runs a plan part by part: each shard on all windows of a text before the next one.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "backends/reference/reference.h"
#include "backends/reference/rows.h"
#include "backends/runtime/text/token_windows.h"
#include "backends/weights/calibration/calibration_index.h"
#include "ir/model/plan.h"
#include "models/tensors/rope.h"

namespace moec {

class WindowRun {
 public:
  // Both must outlive it.
  WindowRun(const Plan& plan, const TokenWindows& text);

  // Reads the embedding of the text, from which the first step starts. Errors: those of
  // WeightReader.
  Status embed(const WeightReader& weights);

  // Runs a step of the schedule on one window with an executor of its shard, and keeps what later
  // steps take. Returns the outputs of the shard. Errors: those of Executor.
  Result<std::vector<Tensor>> run_window(size_t index, Executor& executor, int64_t window,
                                         const RunProbes& probes = {});

  // Runs a step of the schedule. `after` is called for each window. Errors: those of Executor and
  // of `after`.
  Status step(size_t index, const Shard& body, const WeightReader& weights, const RunProbes& probes,
              const std::function<Status()>& after);

  // The values between shards, [tokens of all windows, columns], that steps from `next` on take.
  std::vector<CalibrationEdge> edges(size_t next) const;
  Rows& edge(const std::string& name) { return edges_[name]; }
  // Forgets the others.
  void keep_edges(size_t next);

 private:
  Tensor input(const InputBinding& binding, const std::string& port, const Type& type,
               int64_t window) const;
  Rows positions(const InputBinding& binding) const;
  void take_output(const OutputBinding& binding, const Tensor& tensor, int64_t window);

  const Plan& plan_;
  const TokenWindows& text_;
  std::vector<RopeTable> ropes_;  // by rotation
  std::map<std::string, Rows> edges_;
};

}  // namespace moec
