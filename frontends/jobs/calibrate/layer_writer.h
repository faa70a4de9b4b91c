// Accumulates and writes the Hessians of a layer's inputs, part by part.
#pragma once

#include <map>

#include "backends/files/output_file.h"
#include "backends/reference/reference.h"
#include "backends/weights/encode/hessian_sum.h"
#include "frontends/jobs/calibrate/tapped_inputs.h"

namespace moec {

class LayerWriter {
 public:
  // Creates the file of `layer`; −1 is the head. The sums of one input use at most `sum_bytes`
  // (summed_together()); wider inputs are summed in diagonal blocks.
  static Result<LayerWriter> create(const std::string& folder, int64_t layer, uint64_t sum_bytes);

  // Begins a part of the layer. Skips inputs that an earlier part has summed.
  void begin_part(const std::vector<TappedInput>& inputs);
  // Adds the rows of an input. Serves as the matrix probe of Executor::run().
  void add(const MatrixInput& input);
  // Writes the sums of the part. Error calibrate.nonfinite: an input is not finite or overflows.
  Status end_part();

  // Writes the pooled inputs of all experts and publishes the file.
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
  std::vector<Hessian> all_experts_;  // one per block; empty before the first expert
  std::vector<TappedInput> part_;
  std::map<std::string, HessianSum, std::less<>> sums_;  // by matrix
};

}  // namespace moec
