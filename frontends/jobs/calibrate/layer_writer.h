// Adds up and writes the Hessians of the inputs of a layer, part by part.
#pragma once

#include <map>

#include "backends/files/output_file.h"
#include "backends/reference/reference.h"
#include "backends/weights/encode/hessian_sum.h"
#include "frontends/jobs/calibrate/tapped_inputs.h"

namespace moec {

class LayerWriter {
 public:
  // Begins the file of a layer, −1 for the head. The sums of one input take at most `sum_bytes`
  // (summed_together()): wider ones are taken in blocks.
  static Result<LayerWriter> create(const std::string& folder, int64_t layer, uint64_t sum_bytes);

  // Begins a part of the layer. What an earlier part has summed is not summed again.
  void begin_part(const std::vector<TappedInput>& inputs);
  // For Executor::run().
  void add(const MatrixInput& input);
  // Writes what was summed. Error calibrate.nonfinite: an input overflows.
  Status end_part();

  // Writes the inputs of all experts together, and publishes the file.
  Result<CalibratedLayer> finish();

 private:
  LayerWriter(OutputFile file, CalibratedLayer layer, uint64_t sum_bytes)
      : file_(std::move(file)), layer_(std::move(layer)), sum_bytes_(sum_bytes) {}

  Status write(CalibratedInput input, const std::vector<Hessian>& blocks);
  Status check(const CalibratedInput& input, const std::vector<Hessian>& blocks) const;
  void pool(const std::vector<Hessian>& blocks);

  OutputFile file_;
  CalibratedLayer layer_;
  uint64_t sum_bytes_;
  std::vector<Hessian> all_experts_;  // by block; empty before the first expert
  std::vector<TappedInput> part_;
  std::map<std::string, HessianSum, std::less<>> sums_;  // by matrix
};

}  // namespace moec
