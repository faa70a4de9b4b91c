#include "frontends/measure/measure_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/weights/calibration/checkpoint_identity.h"
#include "backends/weights/views/equal_tensors.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/measure/window_plan.h"
#include "frontends/measure/window_run.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/open_source.h"
#include "ir/model/model_experts.h"
#include "models/shards/build_shard.h"

namespace moec {
namespace {

class CheckpointRun {
 public:
  CheckpointRun(const AnalyzeOptions& options, const Plan& plan, const WeightReader& weights,
                Measurement& measured)
      : options_(options),
        plan_(plan),
        weights_(weights),
        measured_(measured),
        run_(plan, measured.text.windows) {}

  Status run(CountedParts parts) {
    MOEC_TRY(run_.embed(weights_));
    const size_t steps = steps_of_layers();
    total_ = steps * bytes_of_part();
    // The outer loop is over steps, so the weights of each shard are loaded once for all windows.
    for (size_t step = 0; step < steps; ++step) {
      const int64_t layer = plan_.shards[plan_.schedule[step].shard].layer;
      // A layer can have several steps, such as one per expert group. They share one counter.
      if (plan_.model.layers[static_cast<size_t>(layer)].moe && layer != layer_)
        MOEC_TRY(begin_layer(layer, parts));
      MOEC_TRY(run_step(step));
      // Edges are kept for the whole text, so those that no later step reads are released.
      run_.keep_edges(step + 1);
    }
    return end_layer();
  }

 private:
  // Returns the number of steps before the head, on which no expert depends.
  size_t steps_of_layers() const {
    size_t steps = 0;
    while (steps < plan_.schedule.size() && plan_.shards[plan_.schedule[steps].shard].layer >= 0)
      ++steps;
    return steps;
  }

  uint64_t bytes_of_part() const {
    return measured_.text.windows.tokens.size() * static_cast<uint64_t>(plan_.model.hidden) *
           sizeof(float);
  }

  Status begin_layer(int64_t layer, CountedParts parts) {
    MOEC_TRY(end_layer());
    layer_ = layer;
    counter_.emplace(layer, plan_.model.moe.experts, measured_.text, parts);
    return {};
  }

  Status end_layer() {
    if (!counter_) return {};
    measured_.layers.push_back(std::move(*counter_).finish());
    counter_.reset();
    // Weights are read over a long time. A file that changed meanwhile would mix two models.
    return weights_.check_unchanged();
  }

  Status run_step(size_t step) {
    const size_t shard = plan_.schedule[step].shard;
    MOEC_ASSIGN(const Shard body, build_shard(plan_, shard, plan_.build.tokens.front()));
    MOEC_ASSIGN(Executor executor, Executor::create(body, weights_));
    for (int64_t window = 0; window < measured_.text.windows.windows(); ++window) {
      MOEC_TRY(check_not_stopped(options_));
      // Steps before the first MoE layer have no counter.
      const RunProbes probes{.experts = [&](const ExpertRows& rows) {
        if (counter_) counter_->add(window, rows);
      }};
      MOEC_TRY(run_.run_window(step, executor, window, probes));
      if (options_.progress)
        options_.progress(bytes_of_part() / static_cast<uint64_t>(measured_.text.windows.windows()),
                          total_, plan_.shards[shard].name);
    }
    return {};
  }

  const AnalyzeOptions& options_;
  const Plan& plan_;
  const WeightReader& weights_;
  Measurement& measured_;
  WindowRun run_;
  std::optional<LayerCounter> counter_;
  int64_t layer_ = -1;
  uint64_t total_ = 0;
};

Result<AnalysisText> text_of(const AnalyzeOptions& options, const ModelConfig& model) {
  return read_analysis_text(options, source_tokenizer(options.source, model.vocab),
                            model.max_positions);
}

}  // namespace

Result<Measurement> measure_checkpoint(const AnalyzeOptions& options, bool sums) {
  MOEC_ASSIGN(Checkpoint checkpoint, open_source(options.source, options.family, equal_tensors));
  const ExpertGrid grid = expert_grid(checkpoint.config);
  MOEC_TRY(check_has_experts(std::ssize(grid.layers), options.source));
  Measurement measured{checkpoint.config.family, {}, "checkpoint", grid.experts, grid.top_k, {}, {},
                       checkpoint.warnings};
  MOEC_ASSIGN(measured.text, text_of(options, checkpoint.config));
  MOEC_ASSIGN(const std::string config, source_config_text(options.source));
  MOEC_ASSIGN(measured.checkpoint, checkpoint_identity(config, checkpoint.weights));
  // Follows checkpoint_identity(), because the plan consumes the config and the weights.
  MOEC_ASSIGN(const Plan plan,
              window_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                          measured.text.windows.window, options.group_bytes));
  MOEC_ASSIGN(const WeightReader weights, WeightReader::open(plan.weights));
  const bool pairs = counts_pairs(std::ssize(grid.layers), grid.experts, measured.notes);
  MOEC_TRY(CheckpointRun(options, plan, weights, measured)
               .run({.outputs = true, .activations = true, .pairs = pairs, .sums = sums}));
  return measured;
}

}  // namespace moec
