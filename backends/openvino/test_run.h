// What a model computes of fixed inputs: whether two models are the same graph.
//
// OpenVINO 2026.4.1 restores some graphs wrong: on a CPU, those in which it fused a rotary
// embedding give other keys than when they were compiled (its own CACHE_DIR as well). So nothing
// that was restored is used untested.
#pragma once

#include <string>
#include <vector>

#include "backends/openvino/openvino_api.h"

namespace moec {

// All outputs, one after the other, of inputs that are a pure function of the model's ports:
// uniform in [-1, 1). Error engine.run.
Result<std::vector<float>> test_results(OpenVinoModel& model);

// Whether the results are as close as two runs of a device in this precision: ‖a − b‖ ≤ 1e-5 · ‖b‖
// in f32, 1e-3 in f16, all finite.
bool same_results(const std::vector<float>& a, const std::vector<float>& b,
                  const std::string& precision);

}  // namespace moec
