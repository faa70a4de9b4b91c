#include "frontends/jobs/calibrate/calibration_run.h"

#include <algorithm>
#include <utility>

#include "frontends/jobs/calibrate/calibration_folder.h"
#include "frontends/jobs/calibrate/layer_writer.h"
#include "frontends/jobs/calibrate/run_files.h"
#include "frontends/jobs/calibrate/tapped_inputs.h"
#include "frontends/measure/window_plan.h"

namespace moec {

CalibrationRun::CalibrationRun(const CalibrationJob& job, CalibrationIndex& index)
    : job_(job), index_(index), run_(job.plan, job.text, job.options.products.get()) {
  for (size_t i = 0; i < job_.layers.size(); ++i)
    if (lacks(i)) end_ = i + 1;
}

bool CalibrationRun::lacks(size_t layer) const {
  return job_.wanted.begin <= layer && layer < job_.wanted.end &&
         !has_layer(index_, job_.layers[layer].layer);
}

uint64_t CalibrationRun::work_of(size_t layers) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < layers; ++i)
    bytes += steps_of(job_.layers[i]) * text_bytes(job_.plan, job_.text);
  return bytes;
}

// Reads the hidden states of the folder or part that has run the most layers.
std::optional<size_t> CalibrationRun::restore(size_t first) {
  std::vector<std::pair<std::string, const RunState*>> states = {
      {job_.options.folder, &index_.state}};
  for (const CalibrationPart& part : job_.parts)
    states.emplace_back(part.folder, &part.index.state);
  std::stable_sort(states.begin(), states.end(), [](const auto& a, const auto& b) {
    return a.second->next_layer > b.second->next_layer;
  });
  WindowRun* runs[] = {&run_};
  for (const auto& [folder, state] : states) {
    const auto next = static_cast<size_t>(state->next_layer);
    if (next == 0 || next > first) continue;
    // A running part replaces its files. The layers are then run again.
    if (calibration_state(folder).read(*state, job_.text, runs)) return next;
  }
  return std::nullopt;
}

Result<size_t> CalibrationRun::begin(size_t first) {
  if (index_.inputs.empty() && first > 0) {
    // The layers of a calibration by one process are finished in order.
    WindowRun* runs[] = {&run_};
    MOEC_TRY(calibration_state(job_.options.folder).read(index_.state, job_.text, runs));
    return first;
  }
  if (const auto next = restore(first)) return *next;
  MOEC_TRY(run_.embed(job_.weights));
  return 0;
}

Status CalibrationRun::run_missing() {
  size_t first = 0;
  while (first < end_ && !lacks(first)) ++first;
  if (first == end_) return {};
  MOEC_ASSIGN(const size_t next, begin(first));
  // The total is reported first. Layers that are not run again count as done, so that progress ends
  // at 100 %.
  job_.meter.tell(0, "");
  job_.meter.tell(work_of(next), "");
  for (size_t i = next; i < end_; ++i) {
    const LayerSteps& layer = job_.layers[i];
    if (lacks(i)) {
      MOEC_ASSIGN(LayerWriter writer, LayerWriter::create(job_.options.folder, layer.layer,
                                                          sum_bytes(job_.options.group_bytes)));
      MOEC_TRY(run_layer(layer, &writer));
      MOEC_ASSIGN(CalibratedLayer finished, writer.finish());
      add_layer(index_, std::move(finished));
    } else {
      MOEC_TRY(run_layer(layer, nullptr));
    }
    MOEC_TRY(
        write_state(job_.options.folder, layer.end, static_cast<int64_t>(i) + 1, run_, index_));
  }
  return {};
}

Status CalibrationRun::after_window(const std::string& part) const {
  job_.meter.tell(window_bytes(job_.plan, job_.text), part);
  // Checks after every window, because a stop loses only the work since the last finished layer.
  if (job_.options.stop && job_.options.stop())
    return fail(kCalibrateInterrupted, "the calibration was stopped",
                "run the same command again: it resumes after the last finished layer",
                {.file = job_.options.folder});
  return {};
}

Status CalibrationRun::run_layer(const LayerSteps& layer, LayerWriter* writer) {
  // steps_of() is 1 for the head, because its parts share one input.
  for (size_t step = layer.begin; step < layer.begin + steps_of(layer); ++step) {
    const size_t shard = job_.plan.schedule[step].shard;
    const std::string& name = job_.plan.shards[shard].name;
    MOEC_ASSIGN(const TappedShard tapped, tap_shard(job_.plan, shard));
    if (writer) writer->begin_part(tapped.inputs);
    {
      // Frees the weights before the sums are written.
      MOEC_ASSIGN(Executor executor, run_.executor(tapped.body, job_.weights));
      // The probe is set without a writer, too, so that the executor computes in the same way.
      MOEC_TRY(run_.step(step, executor,
                         {.end = [&](const TextChunk&) { return after_window(name); },
                          .matrices =
                              [&](const MatrixInput& input) {
                                if (writer) writer->add(input);
                              }}));
    }
    if (writer) MOEC_TRY(writer->end_part());
    // Drops values that no later step reads, which bounds memory and the size of the state.
    run_.keep_edges(step + 1);
  }
  // A checkpoint that changed during the layer would mix two models in its statistics.
  return job_.weights.check_unchanged();
}

}  // namespace moec
