#include "frontends/calibrate/calibrate_model.h"

#include <optional>

#include "backends/calibration/checkpoint_identity.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"
#include "backends/weights/equal_tensors.h"
#include "backends/weights/weight_reader.h"
#include "frontends/calibrate/calibration_folder.h"
#include "frontends/calibrate/calibration_plan.h"
#include "frontends/calibrate/calibration_text.h"
#include "frontends/calibrate/layer_writer.h"
#include "frontends/calibrate/measure_sensitivity.h"
#include "frontends/calibrate/window_run.h"
#include "frontends/source/open_source.h"
#include "ir/base/name_file.h"

namespace moec {
namespace {

// A checkpoint, planned for a text.
struct CalibrationJob {
  const CalibrateOptions& options;
  const TokenWindows& text;
  const Plan& plan;
  const WeightReader& weights;
};

// The steps of the schedule that belong to one layer, or to the head, of which one part is enough.
struct LayerSteps {
  int64_t layer = -1;
  size_t begin = 0, run = 0, end = 0;  // begin … run − 1 are run
};

std::vector<LayerSteps> layers_of(const Plan& plan) {
  std::vector<LayerSteps> layers;
  for (size_t s = 0; s < plan.schedule.size(); ++s) {
    const int64_t layer = plan.shards[plan.schedule[s].shard].layer;
    if (layers.empty() || layers.back().layer != layer) layers.push_back({layer, s, s, s});
    layers.back().end = s + 1;
    layers.back().run = layer < 0 ? layers.back().begin + 1 : s + 1;
  }
  return layers;
}

class Calibration {
 public:
  Calibration(const CalibrationJob& job, CalibrationIndex& index)
      : job_(job), index_(index), run_(job.plan, job.text), layers_(layers_of(job.plan)) {
    for (const LayerSteps& layer : layers_) total_ += (layer.run - layer.begin) * bytes_of_step();
  }

  Status run_all() {
    const auto next = static_cast<size_t>(index_.next_step);
    if (next == 0)
      MOEC_TRY(run_.embed(job_.weights));
    else
      MOEC_TRY(read_state(job_.options.folder, index_, job_.text, run_));
    tell(0, "");
    for (const LayerSteps& layer : layers_) {
      if (layer.begin < next) {
        tell((layer.run - layer.begin) * bytes_of_step(), "");
        continue;
      }
      MOEC_TRY(run_layer(layer));
    }
    return finish_folder(job_.options.folder, index_);
  }

 private:
  uint64_t bytes_of_window() const {
    return static_cast<uint64_t>(job_.text.window * job_.plan.model.hidden) * sizeof(float);
  }
  uint64_t bytes_of_step() const {
    return static_cast<uint64_t>(job_.text.windows()) * bytes_of_window();
  }

  void tell(uint64_t bytes, const std::string& part) const {
    if (job_.options.progress) job_.options.progress(bytes, total_, part);
  }

  Status after_window(const std::string& part) const {
    tell(bytes_of_window(), part);
    if (job_.options.stop && job_.options.stop())
      return fail(kCalibrateInterrupted, "the calibration was stopped",
                  "run the same command again: it continues behind the last finished layer",
                  {.file = job_.options.folder});
    return {};
  }

  Status run_layer(const LayerSteps& layer) {
    MOEC_ASSIGN(LayerWriter writer, LayerWriter::create(job_.options.folder, layer.layer,
                                                        sum_bytes(job_.options.group_bytes)));
    for (size_t step = layer.begin; step < layer.run; ++step) {
      const size_t shard = job_.plan.schedule[step].shard;
      const std::string& name = job_.plan.shards[shard].name;
      MOEC_ASSIGN(const TappedShard tapped, tap_shard(job_.plan, shard));
      writer.begin_part(tapped.inputs);
      const RunProbes probes{.matrices = [&](const MatrixInput& input) { writer.add(input); }};
      MOEC_TRY(
          run_.step(step, tapped.body, job_.weights, probes, [&] { return after_window(name); }));
      MOEC_TRY(writer.end_part());
      run_.keep_edges(step + 1);
    }
    MOEC_TRY(job_.weights.check_unchanged());
    MOEC_ASSIGN(CalibratedLayer finished, writer.finish());
    index_.layers.push_back(std::move(finished));
    return write_state(job_.options.folder, layer.end, run_, index_);
  }

  const CalibrationJob& job_;
  CalibrationIndex& index_;
  WindowRun run_;
  std::vector<LayerSteps> layers_;
  uint64_t total_ = 0;
};

Result<CalibrationIndex> new_index(const CalibrateOptions& options, const TokenWindows& text,
                                   const WeightTable& weights) {
  CalibrationIndex index;
  MOEC_ASSIGN(const std::string config, source_config_text(options.source));
  MOEC_ASSIGN(index.checkpoint, checkpoint_identity(config, weights));
  index.text = digest_of_tokens(text.tokens);
  index.window = text.window;
  index.tokens = std::ssize(text.tokens);
  return index;
}

uint64_t bytes_of(const CalibrationIndex& index) {
  uint64_t bytes = 0;
  for (const CalibratedLayer& layer : index.layers)
    for (const CalibratedInput& input : layer.inputs)
      if (input.tokens > 0) bytes += triangle_bytes(input);
  return bytes;
}

}  // namespace

Result<CalibrationReport> calibrate_model(const CalibrateOptions& options) {
  MOEC_ASSIGN(Checkpoint checkpoint,
              open_source(options.source, options.family_file, equal_tensors));
  MOEC_ASSIGN(const TokenWindows text, read_calibration_text(options, checkpoint.config));
  MOEC_ASSIGN(const Plan plan, naming_file(calibration_plan(std::move(checkpoint.config),
                                                            std::move(checkpoint.weights),
                                                            text.window, options.group_bytes),
                                           config_path(options.source)));
  MOEC_ASSIGN(const WeightReader weights, WeightReader::open(plan.weights));
  CalibrationReport report;
  report.notes = std::move(checkpoint.warnings);
  report.unused_tokens = text.unused;
  MOEC_ASSIGN(report.index, new_index(options, text, plan.weights));
  MOEC_TRY(create_folder(options.folder));
  MOEC_ASSIGN(const FolderLock lock, FolderLock::take(options.folder));
  MOEC_TRY(resume_index(options.folder, report.index, options.sensitivity));
  report.resumed_layers = report.index.layers.size();
  const CalibrationJob job{options, text, plan, weights};
  if (!report.index.finished) MOEC_TRY(Calibration(job, report.index).run_all());
  if (options.sensitivity) MOEC_TRY(measure_sensitivity(options, plan, text, weights));
  report.bytes = bytes_of(report.index);
  return report;
}

}  // namespace moec
