#include "frontends/jobs/calibrate/calibrate_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "backends/files/digest.h"
#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"
#include "backends/weights/calibration/calibration_index.h"
#include "backends/weights/calibration/checkpoint_identity.h"
#include "backends/weights/calibration/sensitivity.h"
#include "backends/weights/views/equal_tensors.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/calibrate/calibrate_options.h"
#include "frontends/jobs/calibrate/calibration_size.h"
#include "frontends/jobs/calibrate/layer_steps.h"
#include "frontends/jobs/calibrate/layer_writer.h"
#include "frontends/jobs/calibrate/measure_sensitivity.h"
#include "frontends/jobs/calibrate/run_files.h"
#include "frontends/jobs/calibrate/work_meter.h"
#include "frontends/measure/text.h"
#include "frontends/measure/window_plan.h"
#include "frontends/measure/window_run.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/open_source.h"
#include "ir/base/name_file.h"
#include "ir/model/model_config.h"

namespace moec {

namespace {

// Reads the texts or token ids of the options. Errors: those of read_windows(), with codes
// calibrate.*.
Result<Text> read_calibration_text(const CalibrateOptions& options, const ModelConfig& model) {
  return read_windows({"calibrate", options.source, options.texts, given_file(options.tokens_file)},
                      source_tokenizer(options.source, model.vocab),
                      std::min(options.window, model.max_positions));
}

Status check_same(const std::string& folder, const CalibrationIndex& stored,
                  const CalibrationIndex& index, bool extend) {
  MOEC_ASSIGN(const bool measured, has_finished_sensitivity(folder));
  // --sensitivity may extend a finished calibration, but only one without finished sensitivities.
  if (stored.finished && (!extend || measured))
    return fail("calibrate.out_not_empty", "the folder contains a finished calibration",
                "pass another folder with --out, or remove this one", {.file = folder});
  // The stored form of triangles matters only to an unfinished calibration, whose files are
  // continued.
  const char* what = stored.checkpoint != index.checkpoint                     ? "checkpoint"
                     : stored.text != index.text                               ? "text"
                     : stored.window != index.window                           ? "window"
                     : !stored.finished && stored.triangles != index.triangles ? "format"
                                                                               : nullptr;
  if (what == nullptr) return {};
  return fail("calibrate.differs",
              fmt::format("the folder contains {} calibration with another {}",
                          stored.finished ? "a" : "an unfinished", what),
              "pass another folder with --out, or remove this one", {.file = folder});
}

// Files with the hidden states between two layers of an unfinished calibration.
RunFiles calibration_state(const std::string& folder) {
  return {folder, "state", "remove the folder and start over"};
}

// Loads the index of an unfinished calibration of the same checkpoint, text and window into
// `index`. With `extend`, also accepts a finished calibration without sensitivities. Keeps `index`
// if the folder is empty. Errors: calibrate.out_not_empty, calibrate.differs, calibrate.malformed.
Status resume_index(const std::string& folder, CalibrationIndex& index, bool extend) {
  if (!file_exists(folder + "/" + kCalibrationIndex)) {
    MOEC_ASSIGN(const Folder opened, Folder::open(folder));
    MOEC_TRY(opened.remove_file(temporary_of(kCalibrationIndex)));  // left by a killed run
    MOEC_ASSIGN(const bool other, holds_files(folder));
    if (other)
      return fail("calibrate.out_not_empty", "the folder contains other files",
                  "pass another folder with --out", {.file = folder});
    return write_file({folder, kCalibrationIndex}, index_text(index));
  }
  MOEC_ASSIGN(CalibrationIndex stored, read_calibration_index(folder));
  // A killed run may have left the file of a state that the index does not name.
  MOEC_TRY(calibration_state(folder).keep_only(stored.state));
  MOEC_TRY(check_same(folder, stored, index, extend));
  index = std::move(stored);
  return {};
}

// Writes the values that `next_step` and later steps read, then the index that refers to them.
Status write_state(const std::string& folder, size_t next_step, WindowRun& run,
                   CalibrationIndex& index) {
  const RunFiles files = calibration_state(folder);
  // A crash at any point leaves an index whose values are complete: the old values are removed
  // last.
  WindowRun* runs[] = {&run};
  MOEC_ASSIGN(index.state, files.write(runs, next_step, std::ssize(index.layers)));
  MOEC_TRY(write_file({folder, kCalibrationIndex}, index_text(index)));
  return files.keep_only(index.state);
}

// Writes the finished index and removes the state.
Status finish_folder(const std::string& folder, CalibrationIndex& index) {
  index.state = {};
  index.finished = true;
  MOEC_TRY(write_file({folder, kCalibrationIndex}, index_text(index)));
  return calibration_state(folder).keep_only({});
}

// A calibration of one planned checkpoint on one text.
struct CalibrationJob {
  const CalibrateOptions& options;
  const Text& text;
  const Plan& plan;
  const WeightReader& weights;
  const WorkMeter& meter;
};

class Calibration {
 public:
  Calibration(const CalibrationJob& job, CalibrationIndex& index)
      : job_(job),
        index_(index),
        run_(job.plan, job.text, job.options.products.get()),
        layers_(layers_of(job.plan)) {}

  // Returns the bytes of hidden states that pass through all layers.
  static uint64_t work(const Plan& plan, const Text& text) {
    uint64_t bytes = 0;
    for (const LayerSteps& layer : layers_of(plan))
      bytes += steps_of(layer) * text_bytes(plan, text);
    return bytes;
  }

  Status run_all() {
    if (index_.layers.empty()) {
      MOEC_TRY(run_.embed(job_.weights));
    } else {
      WindowRun* runs[] = {&run_};
      MOEC_TRY(calibration_state(job_.options.folder).read(index_.state, job_.text, runs));
    }
    const size_t finished = index_.layers.size();
    job_.meter.tell(0, "");
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (i < finished)
        // Counts finished layers as work done, so that progress ends at 100 %.
        job_.meter.tell(steps_of(layers_[i]) * text_bytes(job_.plan, job_.text), "");
      else
        MOEC_TRY(run_layer(layers_[i]));
    }
    return finish_folder(job_.options.folder, index_);
  }

 private:
  Status after_window(const std::string& part) const {
    job_.meter.tell(window_bytes(job_.plan, job_.text), part);
    // Checks after every window, because a stop loses only the work since the last finished layer.
    if (job_.options.stop && job_.options.stop())
      return fail(kCalibrateInterrupted, "the calibration was stopped",
                  "run the same command again: it resumes after the last finished layer",
                  {.file = job_.options.folder});
    return {};
  }

  Status run_layer(const LayerSteps& layer) {
    MOEC_ASSIGN(LayerWriter writer, LayerWriter::create(job_.options.folder, layer.layer,
                                                        sum_bytes(job_.options.group_bytes)));
    // steps_of() is 1 for the head, because its parts share one input.
    for (size_t step = layer.begin; step < layer.begin + steps_of(layer); ++step) {
      const size_t shard = job_.plan.schedule[step].shard;
      const std::string& name = job_.plan.shards[shard].name;
      MOEC_ASSIGN(const TappedShard tapped, tap_shard(job_.plan, shard));
      writer.begin_part(tapped.inputs);
      {
        // Frees the weights before the sums are written.
        MOEC_ASSIGN(Executor executor, run_.executor(tapped.body, job_.weights));
        MOEC_TRY(run_.step(step, executor,
                           {.end = [&](const TextChunk&) { return after_window(name); },
                            .matrices = [&](const MatrixInput& input) { writer.add(input); }}));
      }
      MOEC_TRY(writer.end_part());
      // Drops values that no later step reads, which bounds memory and the size of the state.
      run_.keep_edges(step + 1);
    }
    // A checkpoint that changed during the layer would mix two models in its statistics.
    MOEC_TRY(job_.weights.check_unchanged());
    MOEC_ASSIGN(CalibratedLayer finished, writer.finish());
    index_.layers.push_back(std::move(finished));
    return write_state(job_.options.folder, layer.end, run_, index_);
  }

  const CalibrationJob& job_;
  CalibrationIndex& index_;
  WindowRun run_;
  std::vector<LayerSteps> layers_;
};

Result<CalibrationIndex> new_index(const CalibrateOptions& options, const Text& text,
                                   const WeightTable& weights) {
  CalibrationIndex index;
  // Ties the statistics to the checkpoint: check_same() compares the identity when a run resumes.
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
      // Inputs without tokens are not stored.
      if (input.tokens > 0) bytes += triangle_bytes(input, index.triangles);
  return bytes;
}

// Reports the size of the statistics. Requires space for the remaining layers and for two files
// with the values between layers, because the old file exists until the new one is complete.
Status check_size(const CalibrationJob& job, size_t finished) {
  MOEC_ASSIGN(const std::vector<uint64_t> layers,
              calibrated_layer_bytes(job.plan, job.options.group_bytes));
  uint64_t all = 0, left = 2 * text_bytes(job.plan, job.text);
  for (size_t i = 0; i < layers.size(); ++i) {
    all += layers[i];
    if (i >= finished) left += layers[i];
  }
  if (job.options.start) job.options.start(all);
  return check_room(job.options.folder, left);
}

}  // namespace

Result<CalibrationReport> calibrate_model(const CalibrateOptions& options) {
  MOEC_ASSIGN(Checkpoint checkpoint, open_source(options.source, options.family, equal_tensors));
  MOEC_ASSIGN(const Text text, read_calibration_text(options, checkpoint.config));
  // naming_file() adds config.json to errors of the plan, which only sees the parsed config.
  MOEC_ASSIGN(const Plan plan,
              naming_file(window_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                                      text.window, options.group_bytes),
                          config_path(options.source)));
  MOEC_ASSIGN(const WeightReader weights, WeightReader::open(plan.weights));
  CalibrationReport report;
  report.notes = std::move(checkpoint.warnings);
  report.unused_tokens = text.unused;
  MOEC_ASSIGN(report.index, new_index(options, text, plan.weights));
  MOEC_TRY(create_folder(options.folder));
  // The lock precedes any reading of the folder, so that two runs do not resume the same
  // calibration.
  MOEC_ASSIGN(const FolderLock lock, FolderLock::take(options.folder));
  MOEC_TRY(resume_index(options.folder, report.index, options.sensitivity));
  report.resumed_layers = report.index.layers.size();
  WorkMeter meter{options};
  // The total must be complete before the first report of progress.
  if (!report.index.finished) meter.total += Calibration::work(plan, text);
  if (options.sensitivity) MOEC_TRY(add_sensitivity_work(meter, plan, text));
  const CalibrationJob job{options, text, plan, weights, meter};
  if (!report.index.finished) {
    MOEC_TRY(check_size(job, report.resumed_layers));
    MOEC_TRY(Calibration(job, report.index).run_all());
  }
  if (options.sensitivity) MOEC_TRY(measure_sensitivity(meter, plan, text, weights));
  report.bytes = bytes_of(report.index);
  return report;
}

}  // namespace moec
