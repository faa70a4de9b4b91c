// Measures the error that quantization of experts causes in a layer's outputs.
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
  // `stats` and `weights` must outlive the object. Error metrics use at most `metric_bytes`; for
  // wider inputs they cover diagonal blocks.
  TensorErrorSums(const CalibrationStats& stats, const WeightReader& weights, int64_t layer,
                  uint64_t metric_bytes)
      : stats_(stats), weights_(weights), layer_(layer), metric_bytes_(metric_bytes) {}

  // Quantizes a matrix with each measured bit width and adds the errors to those of its tensor.
  // Returns the values dequantized from kNoiseBits. Errors: those of WeightReader, CalibrationStats
  // and CalibratedEncoder.
  Result<std::vector<float>> add(const Shard& body, const ExpertMatrix& expert);

  // Returns the errors by role and expert. Adds an eighth of the role's mean to each, because other
  // texts may use experts that this text hardly picks.
  std::vector<TensorErrors> finish() const;

 private:
  using Metrics = std::shared_ptr<const std::vector<ErrorMetric>>;
  Result<Metrics> metrics_of(const CalibratedMatrix& matrix);

  const CalibrationStats& stats_;
  const WeightReader& weights_;
  int64_t layer_;
  uint64_t metric_bytes_;
  std::map<std::pair<std::string, int64_t>, TensorErrors> tensors_;  // by role and expert
  const CalibratedInput* inputs_ = nullptr;                          // inputs of metrics_
  Metrics metrics_;
};

}  // namespace moec
