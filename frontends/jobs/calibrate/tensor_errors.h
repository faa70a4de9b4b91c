// Measures what codes of few bits cost the outputs of the experts of a layer.
#pragma once

#include <map>
#include <memory>

#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/calibration/sensitivity.h"
#include "backends/weights/encode/error_feedback.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/calibrate/tapped_inputs.h"

namespace moec {

class TensorErrorSums {
 public:
  // Both must outlive it. Metrics take at most `metric_bytes`: of wider inputs they are those of
  // blocks.
  TensorErrorSums(const CalibrationStats& stats, const WeightReader& weights, int64_t layer,
                  uint64_t metric_bytes)
      : stats_(stats), weights_(weights), layer_(layer), metric_bytes_(metric_bytes) {}

  // Encodes a matrix with the bits that are measured and adds its errors to those of its tensor.
  // Returns its values with codes of kNoiseBits. Errors: those of WeightReader, CalibrationStats
  // and CalibratedEncoder.
  Result<std::vector<float>> add(const Shard& body, const ExpertMatrix& expert);

  // The tensors in the order of their role and expert. An eighth of the mean of a role is added to
  // each: also experts that this text hardly chose are wanted by some text.
  std::vector<TensorErrors> finish() const;

 private:
  using Metrics = std::shared_ptr<const std::vector<ErrorMetric>>;
  Result<Metrics> metrics_of(const CalibratedMatrix& matrix);

  const CalibrationStats& stats_;
  const WeightReader& weights_;
  int64_t layer_;
  uint64_t metric_bytes_;
  std::map<std::pair<std::string, int64_t>, TensorErrors> tensors_;  // by role and expert
  const CalibratedInput* inputs_ = nullptr;                          // of the last metrics
  Metrics metrics_;
};

}  // namespace moec
