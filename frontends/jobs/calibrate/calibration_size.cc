#include "frontends/jobs/calibrate/calibration_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <utility>

#include "backends/weights/encode/hessian_sum.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/jobs/calibrate/calibrate_options.h"
#include "frontends/jobs/calibrate/layer_steps.h"
#include "frontends/jobs/calibrate/tapped_inputs.h"
#include "frontends/measure/window_plan.h"
#include "frontends/sources/open_source.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

uint64_t bytes_of_input(int64_t inputs, uint64_t group_bytes) {
  const int64_t together = summed_together(inputs, sum_bytes(group_bytes));
  // New calibrations write triangles of correlations (write_triangle()).
  return triangle_bytes({.inputs = inputs, .together = together}, TriangleForm::correlations);
}

// Counts what LayerWriter writes: inputs with the same name once, and the pooled inputs of all
// experts.
Result<uint64_t> bytes_of_layer(const Plan& plan, const LayerSteps& layer, uint64_t group_bytes) {
  uint64_t bytes = 0;
  std::set<std::string> names;
  const auto add = [&](const std::string& name, int64_t inputs) {
    // insert() is false for an input of an earlier part, which LayerWriter skips, too.
    if (names.insert(name).second) bytes += bytes_of_input(inputs, group_bytes);
  };
  for (size_t step = layer.begin; step < layer.begin + steps_of(layer); ++step) {
    MOEC_ASSIGN(const TappedShard tapped, tap_shard(plan, plan.schedule[step].shard));
    for (const TappedInput& one : tapped.inputs) {
      add(one.input.name, one.input.inputs);
      if (!one.input.pool.empty()) add(one.input.pool, one.input.inputs);
    }
  }
  return bytes;
}

}  // namespace

Result<std::vector<uint64_t>> calibrated_layer_bytes(const Plan& plan, uint64_t group_bytes) {
  std::vector<uint64_t> layers;
  for (const LayerSteps& layer : layers_of(plan)) {
    MOEC_ASSIGN(const uint64_t bytes, bytes_of_layer(plan, layer, group_bytes));
    layers.push_back(bytes);
  }
  return layers;
}

Result<uint64_t> calibration_bytes(const std::string& source, const FamilyOptions& family) {
  const CalibrateOptions defaults;
  MOEC_ASSIGN(Checkpoint checkpoint, open_for_plan(source, family, equal_tensors));
  const int64_t window = std::min(defaults.window, checkpoint.config.max_positions);
  MOEC_ASSIGN(const Plan plan,
              window_plan(std::move(checkpoint.config), std::move(checkpoint.weights), window,
                          defaults.group_bytes));
  MOEC_ASSIGN(const std::vector<uint64_t> layers,
              calibrated_layer_bytes(plan, defaults.group_bytes));
  return std::accumulate(layers.begin(), layers.end(), uint64_t{0});
}

Status check_room(const std::string& folder, uint64_t bytes) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  // An unknown free space, for example on some network file systems, does not stop the calibration.
  if (error || space.available >= bytes) return {};
  return fail("calibrate.no_space",
              fmt::format("the calibration needs up to {}, but only {} are free",
                          decimal_bytes(bytes), decimal_bytes(space.available)),
              "free space there, pass another folder with --out, or lower --group-memory",
              {.file = folder});
}

}  // namespace moec
