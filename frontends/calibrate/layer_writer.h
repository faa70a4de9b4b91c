// Adds up and writes the Hessians of the inputs of a layer, part by part.
#pragma once

#include <map>
#include <optional>

#include "backends/files/output_file.h"
#include "backends/reference/reference.h"
#include "backends/weights/encode/hessian_sum.h"
#include "frontends/calibrate/tapped_inputs.h"

namespace moec {

class LayerWriter {
 public:
  // Begins the file of a layer, −1 for the head.
  static Result<LayerWriter> create(const std::string& folder, int64_t layer);

  // Begins a part of the layer. What an earlier part has summed is not summed again.
  void begin_part(const std::vector<TappedInput>& inputs);
  // For Executor::run().
  void add(const MatrixInput& input);
  // Writes what was summed. Error calibrate.nonfinite: an input overflows.
  Status end_part();

  // Writes the inputs of all experts together, and publishes the file.
  Result<CalibratedLayer> finish();

 private:
  LayerWriter(OutputFile file, CalibratedLayer layer)
      : file_(std::move(file)), layer_(std::move(layer)) {}

  Status write(CalibratedInput input, const Hessian& hessian);
  void pool(const Hessian& hessian);

  OutputFile file_;
  CalibratedLayer layer_;
  std::optional<Hessian> all_experts_;
  std::vector<TappedInput> part_;
  std::map<std::string, HessianSum, std::less<>> sums_;  // by matrix
};

}  // namespace moec
