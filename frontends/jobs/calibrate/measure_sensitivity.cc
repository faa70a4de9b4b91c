#include "frontends/jobs/calibrate/measure_sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"
#include "backends/runtime/session/step_inputs.h"
#include "frontends/jobs/calibrate/layer_steps.h"
#include "frontends/jobs/calibrate/run_files.h"
#include "frontends/jobs/calibrate/tensor_errors.h"
#include "frontends/measure/metrics.h"
#include "frontends/measure/window_run.h"

namespace moec {
namespace {

// Maximum number of tokens of all windows together.
constexpr int64_t kMaxTokens = 2048;
// Roles of an expert: gate, up and down.
constexpr int64_t kMaxRoles = 3;

// Selects evenly spaced windows such that the hidden states of all runs fit `bytes`.
Text spread_windows(const Plan& plan, const Text& text, uint64_t bytes) {
  // One exact run, and a noisy run per layer and role, all of which are alive at the last layer.
  const int64_t runs = 1 + kMaxRoles * std::ssize(plan.model.layers);
  // Counts the hidden states twice: while a step runs, its input and its output both exist.
  const auto each =
      static_cast<uint64_t>(2 * runs * text.window * plan.model.hidden) * sizeof(float);
  const int64_t most =
      std::min({static_cast<int64_t>(bytes / each), kMaxTokens / text.window, text.windows()});
  std::vector<int64_t> some;
  // At least one window, even if it exceeds the memory: a measurement without tokens has no result.
  const int64_t count = std::max<int64_t>(1, most);
  for (int64_t i = 0; i < count; ++i) {
    // Evenly spaced, so that the windows cover the whole text, not only its beginning.
    const auto from = text.tokens.begin() + i * text.windows() / count * text.window;
    some.insert(some.end(), from, from + text.window);
  }
  return cut_tokens(std::move(some), text.window);
}

// A run of the model with one role of one layer's experts quantized.
struct NoisyRun {
  size_t layer = 0;  // in Sensitivity::layers
  std::string role;
  WindowRun run;
  std::vector<LogitDivergence> divergences;  // per token
};

// Dequantized values of expert matrices, in the order of TappedShard::experts.
using CodedExperts = std::vector<std::vector<float>>;

// Returns a copy of the shard in which the expert matrices of `role` are quantized. Moves their
// values out of `coded`.
Shard with_noise(const TappedShard& tapped, const std::string& role, CodedExperts& coded) {
  Shard body = tapped.body;
  for (size_t i = 0; i < coded.size(); ++i) {
    const ExpertMatrix& expert = tapped.experts[i];
    if (expert.matrix.role != role) continue;
    // Replaces the weight by a constant in place, so the ids of all other values stay valid.
    body.ops[body.values[expert.weight].producer].data =
        Constant{body.type(expert.weight), {coded[i].begin(), coded[i].end()}};
    coded[i] = {};
  }
  return body;
}

bool has_experts(const ShardDecl& decl) {
  return is_whole_moe(decl.kind) || is_expert_group(decl.kind);
}

// Number of roles of expert matrices; 0 if the plan has no experts.
Result<uint64_t> roles_of_experts(const Plan& plan) {
  std::set<std::string> roles;
  for (const Step& step : plan.schedule) {
    if (!has_experts(plan.shards[step.shard])) continue;
    MOEC_ASSIGN(const TappedShard tapped, tap_shard(plan, step.shard));
    for (const ExpertMatrix& expert : tapped.experts) roles.insert(expert.matrix.role);
    break;
  }
  return roles.size();
}

// Returns the work of the first `layers` layers, summed over all runs.
Result<uint64_t> work_of_layers(const Plan& plan, const Text& text, size_t layers) {
  MOEC_ASSIGN(const uint64_t roles, roles_of_experts(plan));
  const std::vector<LayerSteps> all = layers_of(plan);
  uint64_t runs = 1, passes = 0;
  for (size_t i = 0; i < layers; ++i) {
    bool begun = false;
    for (size_t step = all[i].begin; step < all[i].end; ++step) {
      if (!begun && has_experts(plan.shards[plan.schedule[step].shard])) {
        runs += roles;
        begun = true;
      }
      passes += runs;
    }
  }
  return passes * text_bytes(plan, text);
}

class SensitivityRun {
 public:
  // `files_` has another name than the state files of the calibration, so that both resume
  // independently.
  SensitivityRun(const WorkMeter& meter, const Plan& plan, const Text& text,
                 const WeightReader& weights, const CalibrationStats& stats)
      : meter_(meter),
        options_(meter.options),
        plan_(plan),
        text_(text),
        weights_(weights),
        stats_(stats),
        files_{options_.folder, "sensitivity", "remove sensitivity.json and run the command again"},
        exact_(plan, text_, options_.products.get()) {}

  // Runs the measurement and writes kSensitivityFile after each layer.
  Status run() {
    MOEC_TRY(begin());
    const std::vector<LayerSteps> layers = layers_of(plan_);
    for (size_t i = result_.state ? static_cast<size_t>(result_.state->next_layer) : 0;
         i < layers.size(); ++i) {
      for (size_t step = layers[i].begin; step < layers[i].end; ++step) MOEC_TRY(run_step(step));
      finish_layer();
      if (layers[i].layer >= 0) MOEC_TRY(save(layers[i].end, static_cast<int64_t>(i) + 1));
    }
    for (const NoisyRun& noisy : noisy_) MOEC_TRY(set_divergence(noisy));
    return publish(std::nullopt);
  }

 private:
  // Starts the runs, or restores them after the last layer that an earlier run finished.
  Status begin() {
    MOEC_ASSIGN(const std::string calibration,
                digest_file(options_.folder + "/" + kCalibrationIndex));
    MOEC_ASSIGN(auto stored, read_any_sensitivity(options_.folder));
    const int64_t tokens = std::ssize(text_.tokens);
    // A finished measurement has no state. A measurement of other windows or another calibration
    // starts over.
    if (!stored || !stored->state || stored->calibration != calibration ||
        stored->tokens != tokens) {
      result_.calibration = calibration;
      result_.tokens = tokens;
      return exact_.embed(weights_);
    }
    result_ = std::move(*stored);
    const int64_t next = result_.state->next_layer;
    // The file may have been edited, so `next` must be checked before it is used as an index.
    if (next < 1 || next >= std::ssize(layers_of(plan_)))
      return fail("calibrate.malformed",
                  fmt::format("the model has no layer {} to resume at", next), files_.mend,
                  {.file = options_.folder + "/" + kSensitivityFile});
    for (size_t layer = 0; layer < result_.layers.size(); ++layer)
      for (const RoleSensitivity& role : result_.layers[layer].roles)
        noisy_.push_back(noisy_run(layer, role.role, {plan_, text_}));
    MOEC_TRY(files_.read(*result_.state, text_, all_runs()));
    MOEC_ASSIGN(const uint64_t done, work_of_layers(plan_, text_, static_cast<size_t>(next)));
    meter_.tell(done, "");
    return {};
  }

  NoisyRun noisy_run(size_t layer, const std::string& role, WindowRun run) const {
    return {layer, role, std::move(run), std::vector<LogitDivergence>(text_.tokens.size())};
  }

  std::vector<WindowRun*> all_runs() {
    std::vector<WindowRun*> runs = {&exact_};
    for (NoisyRun& noisy : noisy_) runs.push_back(&noisy.run);
    return runs;
  }

  Status save(size_t next_step, int64_t next_layer) {
    MOEC_ASSIGN(RunState state, files_.write(all_runs(), next_step, next_layer));
    return publish(std::move(state));
  }

  // Writes the result so far. Without `state`, the measurement is marked as finished.
  Status publish(std::optional<RunState> state) {
    result_.state = std::move(state);
    MOEC_TRY(write_file({options_.folder, kSensitivityFile}, sensitivity_text(result_)));
    return files_.keep_only(result_.state.value_or(RunState()));
  }

  Status run_step(size_t step) {
    MOEC_TRY(check_not_stopped());
    const ShardDecl& decl = plan_.shards[plan_.schedule[step].shard];
    MOEC_ASSIGN(const TappedShard tapped, tap_shard(plan_, plan_.schedule[step].shard));
    MOEC_TRY(decl.layer < 0 ? run_head(step, tapped) : run_body(step, tapped, decl.layer));
    for (WindowRun* run : all_runs()) run->keep_edges(step + 1);
    return {};
  }

  Status check_not_stopped() const {
    if (!options_.stop || !options_.stop()) return {};
    return fail(kCalibrateInterrupted, "the measurement was stopped",
                "run the same command again: it resumes after the last finished layer",
                {.file = options_.folder});
  }

  Status run_body(size_t step, const TappedShard& tapped, int64_t layer) {
    if (!tapped.experts.empty()) begin_layer(tapped, layer);
    // The exact run and earlier layers' noisy runs share the exact weights of this layer.
    std::vector<WindowRun*> runs = {&exact_};
    for (NoisyRun& noisy : noisy_)
      // A noisy run of this layer needs quantized weights if the shard has experts.
      if (tapped.experts.empty() || !is_of_last_layer(noisy)) runs.push_back(&noisy.run);
    MOEC_TRY(run_all(step, tapped.body, runs));
    if (tapped.experts.empty()) return {};
    CodedExperts coded;
    for (const ExpertMatrix& expert : tapped.experts) {
      MOEC_ASSIGN(coded.emplace_back(), sums_->add(tapped.body, expert));
    }
    for (NoisyRun& noisy : noisy_)
      if (is_of_last_layer(noisy))
        MOEC_TRY(run_all(step, with_noise(tapped, noisy.role, coded), {&noisy.run}));
    return {};
  }

  bool is_of_last_layer(const NoisyRun& noisy) const {
    return noisy.layer + 1 == result_.layers.size();
  }

  // Does nothing for later parts of the same layer, because the experts of a layer may be divided
  // into several parts.
  void begin_layer(const TappedShard& tapped, int64_t layer) {
    if (sums_) return;
    result_.layers.push_back({layer, {}, {}});
    sums_.emplace(stats_, weights_, layer, options_.group_bytes);
    std::set<std::string> roles;
    for (const ExpertMatrix& expert : tapped.experts)
      if (roles.insert(expert.matrix.role).second) begin_role(expert.matrix.role);
  }

  void begin_role(const std::string& role) {
    result_.layers.back().roles.push_back({role, 0});
    // `exact_` is copied: up to this layer, the noisy run is identical to the exact one.
    noisy_.push_back(noisy_run(result_.layers.size() - 1, role, exact_));
  }

  void finish_layer() {
    if (sums_) result_.layers.back().tensors = sums_->finish();
    sums_.reset();
  }

  Status run_all(size_t step, const Shard& body, const std::vector<WindowRun*>& runs) {
    // One executor for all runs, so that the weights of the step are read once.
    MOEC_ASSIGN(Executor executor, exact_.executor(body, weights_));
    const Observer observer{.begin = [&](const TextChunk&) { return check_not_stopped(); },
                            .end = [&](const TextChunk&) -> Status {
                              told(step);
                              return {};
                            }};
    for (WindowRun* run : runs) MOEC_TRY(run->step(step, executor, observer));
    return {};
  }

  // Runs one slice of the vocabulary.
  Status run_head(size_t step, const TappedShard& tapped) {
    MOEC_ASSIGN(Executor executor, exact_.executor(tapped.body, weights_));
    for (int64_t window = 0; window < text_.windows(); ++window) {
      MOEC_TRY(check_not_stopped());
      MOEC_ASSIGN(const Rows exact, logits_of(exact_, step, executor, window));
      for (NoisyRun& noisy : noisy_) {
        MOEC_ASSIGN(const Rows other, logits_of(noisy.run, step, executor, window));
        // The divergence is accumulated over the slices of the vocabulary, because the softmax
        // needs all of them.
        for (int64_t row = 0; row < exact.count(); ++row)
          noisy.divergences[static_cast<size_t>(window * text_.window + row)].add(exact.row(row),
                                                                                  other.row(row));
      }
    }
    return {};
  }

  Result<Rows> logits_of(WindowRun& run, size_t step, Executor& executor, int64_t window) const {
    MOEC_ASSIGN(const std::vector<Tensor> outputs, run.run_window(step, executor, window));
    told(step);
    return unpack_rows(outputs.front(), text_.window);
  }

  void told(size_t step) const {
    meter_.tell(window_bytes(plan_, text_),
                plan_.shards[plan_.schedule[step].shard].name + ", sensitivity");
  }

  Status set_divergence(const NoisyRun& noisy) {
    double sum = 0;
    for (const LogitDivergence& divergence : noisy.divergences) sum += divergence.kl();
    LayerSensitivity& layer = result_.layers[noisy.layer];
    for (RoleSensitivity& role : layer.roles)
      if (role.role == noisy.role) role.kl = sum / static_cast<double>(noisy.divergences.size());
    // One non-finite token makes the sum non-finite, so a single check covers all tokens.
    if (std::isfinite(sum)) return {};
    return fail("calibrate.nonfinite",
                fmt::format("logits are NaN or infinite with {} of layer {} quantized", noisy.role,
                            layer.layer),
                "calibrate with another text, or without --sensitivity", {.file = options_.source});
  }

  const WorkMeter& meter_;
  const CalibrateOptions& options_;
  const Plan& plan_;
  const Text& text_;
  const WeightReader& weights_;
  const CalibrationStats& stats_;
  RunFiles files_;
  WindowRun exact_;
  std::vector<NoisyRun> noisy_;
  std::optional<TensorErrorSums> sums_;  // of the current layer
  Sensitivity result_;
};

}  // namespace

Status measure_sensitivity(const WorkMeter& meter, const Plan& plan, const Text& text,
                           const WeightReader& weights) {
  const CalibrateOptions& options = meter.options;
  if (plan.model.moe.experts == 0)
    return fail("calibrate.no_experts",
                "--sensitivity measures experts, but the model has no experts",
                "leave out --sensitivity", {.file = options.source});
  MOEC_ASSIGN(const CalibrationStats stats, CalibrationStats::open(options.folder));
  const Text some = spread_windows(plan, text, options.group_bytes);
  return SensitivityRun(meter, plan, some, weights, stats).run();
}

Status add_sensitivity_work(WorkMeter& meter, const Plan& plan, const Text& text) {
  // Selects the same windows as measure_sensitivity(), so that the total matches the work.
  const Text some = spread_windows(plan, text, meter.options.group_bytes);
  MOEC_ASSIGN(const uint64_t work, work_of_layers(plan, some, layers_of(plan).size()));
  meter.total += work;
  return {};
}

}  // namespace moec
