#include "frontends/jobs/calibrate/calibrate_model.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backends/files/digest.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"
#include "backends/output/part_folders.h"
#include "backends/weights/calibration/calibration_index.h"
#include "backends/weights/calibration/checkpoint_identity.h"
#include "backends/weights/views/equal_tensors.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/calibrate/calibrate_options.h"
#include "frontends/jobs/calibrate/calibration_folder.h"
#include "frontends/jobs/calibrate/calibration_parts.h"
#include "frontends/jobs/calibrate/calibration_run.h"
#include "frontends/jobs/calibrate/calibration_size.h"
#include "frontends/jobs/calibrate/layer_shares.h"
#include "frontends/jobs/calibrate/layer_steps.h"
#include "frontends/jobs/calibrate/measure_sensitivity.h"
#include "frontends/jobs/calibrate/work_meter.h"
#include "frontends/measure/text.h"
#include "frontends/measure/window_plan.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/open_source.h"
#include "ir/base/name_file.h"
#include "ir/base/regular_file.h"
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

Result<CalibrationIndex> new_index(const CalibrateOptions& options, const Text& text,
                                   const WeightTable& weights) {
  CalibrationIndex index;
  // Ties the statistics to the checkpoint: check_same() compares the identity when a run resumes.
  MOEC_ASSIGN(const std::string config, source_config_text(options.source));
  MOEC_ASSIGN(index.checkpoint, checkpoint_identity(config, weights));
  index.text = digest_of_tokens(text.tokens);
  index.window = text.window;
  index.tokens = std::ssize(text.tokens);
  if (options.part || options.join) {
    MOEC_ASSIGN(index.inputs, digest_of_flags(options));
  }
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

// Reports the size of the statistics. Requires space for the missing layers and for two files with
// the values between layers, because the old file exists until the new one is complete.
Status check_size(const CalibrationJob& job, const CalibrationRun& run) {
  MOEC_ASSIGN(const std::vector<uint64_t> layers,
              calibrated_layer_bytes(job.plan, job.options.group_bytes));
  uint64_t all = 0, left = 2 * text_bytes(job.plan, job.text);
  for (size_t i = job.wanted.begin; i < job.wanted.end; ++i) {
    all += layers[i];
    if (run.lacks(i)) left += layers[i];
  }
  if (job.options.start) job.options.start(all);
  // A finished part, or a join of all layers, writes only an index.
  if (run.work() == 0) return {};
  return check_room(job.options.folder, left);
}

Status check_flags(const CalibrateOptions& options) {
  if (!options.part) return {};
  if (options.join)
    return fail("calibrate.part", "--join completes the calibration, --part calibrates a share",
                "pass --join after all parts have ended");
  if (options.sensitivity)
    return fail("calibrate.part", "--sensitivity measures the complete calibration, not a part",
                "pass --sensitivity with --join");
  return {};
}

// An interrupted removal leaves an unfinished index, with which the same command continues.
Status finish_whole(const std::string& folder, const std::vector<LayerSteps>& layers,
                    CalibrationIndex& index) {
  MOEC_TRY(remove_parts(folder, layers));
  return finish_folder(folder, index);
}

// Checks the folder of the whole calibration before a part is written below it.
Status check_whole(const std::string& out, const CalibrationIndex& index) {
  if (!file_exists(out + "/" + kCalibrationIndex)) return check_free(out);
  MOEC_ASSIGN(const CalibrationIndex stored, read_calibration_index(out));
  return check_same(out, stored, index, false);
}

// The locks of a folder, and the parts that exist below the folder of the whole calibration.
struct CalibrationFolder {
  std::optional<FolderLock> whole;
  FolderLock own;
  std::vector<CalibrationPart> parts;
};

// `options` has the folder of the part. Loads `index` from there.
Result<CalibrationFolder> open_folder(const std::string& out, const CalibrateOptions& options,
                                      CalibrationIndex& index) {
  MOEC_ASSIGN(std::optional<FolderLock> whole, lock_whole(out, options.part));
  if (options.part) MOEC_TRY(check_whole(out, index));
  MOEC_TRY(create_folder(options.folder));
  // The lock precedes any reading of the folder, so that two runs do not resume the same
  // calibration.
  MOEC_ASSIGN(FolderLock own, FolderLock::take(options.folder));
  if (index.inputs.empty() && has_parts(out))
    return fail("calibrate.not_joined", "the folder contains parts of a calibration (--part)",
                "pass --join to complete that calibration, or remove the folder", {.file = out});
  std::vector<CalibrationPart> parts;
  // Before an index is written, which would refuse the flags of the parts.
  if (!index.inputs.empty()) {
    MOEC_ASSIGN(parts, read_parts(out, index));
  }
  MOEC_TRY(resume_index(options.folder, index, options.sensitivity));
  return CalibrationFolder{std::move(whole), std::move(own), std::move(parts)};
}

Result<SharedLayers> wanted_layers(const CalibrateOptions& options, const Plan& plan,
                                   const Text& text) {
  if (!options.part) return SharedLayers{0, layers_of(plan).size()};
  MOEC_ASSIGN(const std::vector<LayerTime> costs,
              layer_costs(plan, text.windows(), options.group_bytes));
  return layers_of_share(*options.part, costs);
}

}  // namespace

Result<CalibrationReport> calibrate_model(const CalibrateOptions& options) {
  MOEC_TRY(check_flags(options));
  CalibrateOptions own = options;
  own.folder = part_folder(options.folder, options.part);
  MOEC_ASSIGN(Checkpoint checkpoint, open_source(own.source, own.family, equal_tensors));
  MOEC_ASSIGN(const Text text, read_calibration_text(own, checkpoint.config));
  // naming_file() adds config.json to errors of the plan, which only sees the parsed config.
  MOEC_ASSIGN(const Plan plan,
              naming_file(window_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                                      text.window, own.group_bytes),
                          config_path(own.source)));
  MOEC_ASSIGN(const WeightReader weights, WeightReader::open(plan.weights));
  CalibrationReport report;
  report.notes = std::move(checkpoint.warnings);
  report.unused_tokens = text.unused;
  MOEC_ASSIGN(report.index, new_index(own, text, plan.weights));
  MOEC_ASSIGN(const SharedLayers wanted, wanted_layers(own, plan, text));
  MOEC_ASSIGN(const CalibrationFolder folder, open_folder(options.folder, own, report.index));
  const std::vector<LayerSteps> layers = layers_of(plan);
  if (own.join && !report.index.finished)
    MOEC_TRY(adopt_parts(own.folder, folder.parts, layers, report.index));
  report.resumed_layers = report.index.layers.size();
  WorkMeter meter{own};
  const CalibrationJob job{own, text, plan, weights, meter, layers, wanted, folder.parts};
  CalibrationRun run(job, report.index);
  // The total must be complete before the first report of progress.
  if (!report.index.finished) meter.total += run.work();
  if (own.sensitivity) MOEC_TRY(add_sensitivity_work(meter, plan, text));
  if (!report.index.finished) {
    MOEC_TRY(check_size(job, run));
    MOEC_TRY(run.run_missing());
    if (!own.part) MOEC_TRY(finish_whole(own.folder, layers, report.index));
  }
  if (own.sensitivity) MOEC_TRY(measure_sensitivity(meter, plan, text, weights));
  report.bytes = bytes_of(report.index);
  return report;
}

}  // namespace moec
