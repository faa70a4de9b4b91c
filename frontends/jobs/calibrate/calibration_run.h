// Runs a text through the layers of a checkpoint and writes the statistics of each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/weights/calibration/calibration_index.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/calibrate/calibration_parts.h"
#include "frontends/jobs/calibrate/layer_shares.h"
#include "frontends/jobs/calibrate/layer_steps.h"
#include "frontends/jobs/calibrate/work_meter.h"
#include "frontends/measure/text.h"
#include "frontends/measure/window_run.h"
#include "ir/model/plan.h"

namespace moec {

class LayerWriter;

// A calibration of some layers of one planned checkpoint on one text.
struct CalibrationJob {
  const CalibrateOptions& options;
  const Text& text;
  const Plan& plan;
  const WeightReader& weights;
  const WorkMeter& meter;
  const std::vector<LayerSteps>& layers;  // layers_of(plan)
  SharedLayers wanted;                    // layers to calibrate
  // Parts of the same calibration. Hidden states of one spare running the layers before them.
  const std::vector<CalibrationPart>& parts;
};

class CalibrationRun {
 public:
  // `job` and `index`, which lists the finished layers, must outlive the object.
  CalibrationRun(const CalibrationJob& job, CalibrationIndex& index);

  // Returns the bytes of hidden states that pass through the layers up to the last missing one.
  uint64_t work() const { return work_of(end_); }
  // True if a layer is wanted and not finished.
  bool lacks(size_t layer) const;

  // Calibrates the missing layers, and runs the others before and between them without sums. After
  // each layer, writes the index and the hidden states. Errors: those of calibrate_model().
  Status run_missing();

 private:
  uint64_t work_of(size_t layers) const;
  // Prepares the hidden states before a layer up to `first`. Returns its index.
  Result<size_t> begin(size_t first);
  std::optional<size_t> restore(size_t first);
  Status after_window(const std::string& part) const;
  Status run_layer(const LayerSteps& layer, LayerWriter* writer);

  const CalibrationJob& job_;
  CalibrationIndex& index_;
  WindowRun run_;
  size_t end_ = 0;  // after the last missing layer
};

}  // namespace moec
