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

namespace moec {
namespace {

class CheckpointRun {
 public:
  CheckpointRun(const AnalyzeOptions& options, const Plan& plan, const WeightReader& weights,
                Measurement& measured)
      : options_(options), plan_(plan), weights_(weights), measured_(measured) {}

  Status run(CountedParts parts) {
    WindowRun run(plan_, measured_.text, options_.products.get());
    const uint64_t window =
        static_cast<uint64_t>(measured_.text.window * plan_.model.hidden) * sizeof(float);
    const uint64_t total =
        run.layer_steps() * window * static_cast<uint64_t>(measured_.text.windows());
    MOEC_TRY(run.layers(weights_,
                        {.begin = [&](const TextChunk&) { return check_not_stopped(options_); },
                         .end = [&](const TextChunk&) -> Status {
                           if (options_.progress) options_.progress(window, total, shard_);
                           return {};
                         },
                         .shard = [&](const ShardDecl& shard) { return begin_shard(shard, parts); },
                         .experts =
                             [&](const TextChunk& chunk, int64_t, const ExpertRows& rows) {
                               // Shards before the first MoE layer have no counter.
                               if (counter_) counter_->add(chunk, rows);
                             }}));
    return end_layer();
  }

 private:
  Status begin_shard(const ShardDecl& shard, CountedParts parts) {
    shard_ = shard.name;
    // A layer can have several shards, such as one per expert group. They share one counter.
    if (!plan_.model.layers[static_cast<size_t>(shard.layer)].moe || shard.layer == layer_)
      return {};
    MOEC_TRY(end_layer());
    layer_ = shard.layer;
    counter_.emplace(layer_, plan_.model.moe.experts, measured_.text, parts);
    return {};
  }

  Status end_layer() {
    if (!counter_) return {};
    measured_.layers.push_back(std::move(*counter_).finish());
    counter_.reset();
    // Weights are read over a long time. A file that changed meanwhile would mix two models.
    return weights_.check_unchanged();
  }

  const AnalyzeOptions& options_;
  const Plan& plan_;
  const WeightReader& weights_;
  Measurement& measured_;
  std::optional<LayerCounter> counter_;
  int64_t layer_ = -1;
  std::string shard_;  // the current one
};

}  // namespace

Result<Measurement> measure_checkpoint(const AnalyzeOptions& options, bool sums) {
  MOEC_ASSIGN(Checkpoint checkpoint, open_source(options.source, options.family, equal_tensors));
  const ExpertGrid grid = expert_grid(checkpoint.config);
  MOEC_TRY(check_has_experts(std::ssize(grid.layers), options.source));
  Measurement measured{checkpoint.config.family, {}, "checkpoint", grid.experts, grid.top_k, {}, {},
                       checkpoint.warnings};
  MOEC_ASSIGN(measured.text,
              read_analysis_text(options, source_tokenizer(options.source, checkpoint.config.vocab),
                                 checkpoint.config.max_positions));
  MOEC_ASSIGN(const std::string config, source_config_text(options.source));
  MOEC_ASSIGN(measured.checkpoint, checkpoint_identity(config, checkpoint.weights));
  // Follows checkpoint_identity(), because the plan consumes the config and the weights.
  MOEC_ASSIGN(const Plan plan,
              window_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                          measured.text.window, options.group_bytes));
  MOEC_ASSIGN(const WeightReader weights, WeightReader::open(plan.weights));
  const bool pairs = counts_pairs(std::ssize(grid.layers), grid.experts, measured.notes);
  MOEC_TRY(CheckpointRun(options, plan, weights, measured)
               .run({.outputs = true, .activations = true, .pairs = pairs, .sums = sums}));
  return measured;
}

}  // namespace moec
