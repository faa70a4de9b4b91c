#include "frontends/calibrate/measure_sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"
#include "backends/runtime/step_inputs.h"
#include "frontends/calibrate/logit_divergence.h"
#include "frontends/calibrate/tensor_errors.h"
#include "frontends/calibrate/window_run.h"

namespace moec {
namespace {

constexpr int64_t kMostTokens = 2048;
// Of an expert: gate, up and down.
constexpr int64_t kMostRoles = 3;

// So many windows of the text that the hidden states of all runs fit.
TokenWindows spread_windows(const Plan& plan, const TokenWindows& text, uint64_t bytes) {
  const int64_t runs = 1 + kMostRoles * std::ssize(plan.model.layers);
  const auto each =
      static_cast<uint64_t>(2 * runs * text.window * plan.model.hidden) * sizeof(float);
  const int64_t most =
      std::min({static_cast<int64_t>(bytes / each), kMostTokens / text.window, text.windows()});
  TokenWindows some{{}, text.window, 0};
  const int64_t count = std::max<int64_t>(1, most);
  for (int64_t i = 0; i < count; ++i) {
    const auto from = text.tokens.begin() + i * text.windows() / count * text.window;
    some.tokens.insert(some.tokens.end(), from, from + text.window);
  }
  return some;
}

// The model with few bits for one role of one layer's experts.
struct NoisyRun {
  size_t layer = 0;  // in Sensitivity::layers
  std::string role;
  WindowRun run;
  std::vector<LogitDivergence> divergences;  // by token
};

// The values of expert matrices in few bits, in the order of TappedShard::experts.
using CodedExperts = std::vector<std::vector<float>>;

// A shard whose experts have few bits in this role, and the values of these no more.
Shard with_noise(const TappedShard& tapped, const std::string& role, CodedExperts& coded) {
  Shard body = tapped.body;
  for (size_t i = 0; i < coded.size(); ++i) {
    const ExpertMatrix& expert = tapped.experts[i];
    if (expert.matrix.role != role) continue;
    body.ops[body.values[expert.weight].producer].data =
        Constant{body.type(expert.weight), {coded[i].begin(), coded[i].end()}};
    coded[i] = {};
  }
  return body;
}

class SensitivityRun {
 public:
  SensitivityRun(const CalibrateOptions& options, const Plan& plan, const TokenWindows& text,
                 const WeightReader& weights, const CalibrationStats& stats)
      : options_(options),
        plan_(plan),
        text_(text),
        weights_(weights),
        stats_(stats),
        exact_(plan, text_) {}

  Result<Sensitivity> run() {
    MOEC_TRY(exact_.embed(weights_));
    for (size_t step = 0; step < plan_.schedule.size(); ++step) {
      MOEC_TRY(check_not_stopped());
      const ShardDecl& decl = plan_.shards[plan_.schedule[step].shard];
      MOEC_ASSIGN(const TappedShard tapped, tap_shard(plan_, plan_.schedule[step].shard));
      MOEC_TRY(decl.layer < 0 ? run_head(step, tapped) : run_body(step, tapped, decl.layer));
      exact_.keep_edges(step + 1);
      for (NoisyRun& noisy : noisy_) noisy.run.keep_edges(step + 1);
    }
    finish_layer();
    for (NoisyRun& noisy : noisy_) MOEC_TRY(add_role(noisy));
    result_.tokens = std::ssize(text_.tokens);
    return std::move(result_);
  }

 private:
  Status check_not_stopped() const {
    if (!options_.stop || !options_.stop()) return {};
    return fail(kCalibrateInterrupted, "the measurement was stopped",
                "run the same command again: the calibration is kept, the measurement starts over",
                {.file = options_.folder});
  }

  Status run_body(size_t step, const TappedShard& tapped, int64_t layer) {
    if (!tapped.experts.empty()) begin_layer(tapped, layer);
    std::vector<WindowRun*> runs = {&exact_};
    for (NoisyRun& noisy : noisy_)
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

  // The experts of a layer may lie in several parts.
  void begin_layer(const TappedShard& tapped, int64_t layer) {
    if (!result_.layers.empty() && result_.layers.back().layer == layer) return;
    finish_layer();
    result_.layers.push_back({layer, {}, {}});
    sums_.emplace(stats_, weights_, layer, options_.group_bytes);
    std::set<std::string> roles;
    for (const ExpertMatrix& expert : tapped.experts)
      if (roles.insert(expert.matrix.role).second)
        noisy_.push_back({result_.layers.size() - 1, expert.matrix.role, exact_,
                          std::vector<LogitDivergence>(text_.tokens.size())});
  }

  void finish_layer() {
    if (sums_) result_.layers.back().tensors = sums_->finish();
    sums_.reset();
  }

  Status run_all(size_t step, const Shard& body, const std::vector<WindowRun*>& runs) {
    MOEC_ASSIGN(Executor executor, Executor::create(body, weights_));
    for (WindowRun* run : runs)
      for (int64_t window = 0; window < text_.windows(); ++window) {
        MOEC_TRY(check_not_stopped());
        MOEC_TRY(run->run_window(step, executor, window));
      }
    return {};
  }

  // A slice of the vocabulary.
  Status run_head(size_t step, const TappedShard& tapped) {
    MOEC_ASSIGN(Executor executor, Executor::create(tapped.body, weights_));
    for (int64_t window = 0; window < text_.windows(); ++window) {
      MOEC_TRY(check_not_stopped());
      MOEC_ASSIGN(const Rows exact, logits_of(exact_, step, executor, window));
      for (NoisyRun& noisy : noisy_) {
        MOEC_ASSIGN(const Rows other, logits_of(noisy.run, step, executor, window));
        for (int64_t row = 0; row < exact.count(); ++row)
          noisy.divergences[static_cast<size_t>(window * text_.window + row)].add(exact.row(row),
                                                                                  other.row(row));
      }
    }
    return {};
  }

  Result<Rows> logits_of(WindowRun& run, size_t step, Executor& executor, int64_t window) const {
    MOEC_ASSIGN(const std::vector<Tensor> outputs, run.run_window(step, executor, window));
    return unpack_rows(outputs.front(), text_.window);
  }

  Status add_role(const NoisyRun& noisy) {
    double sum = 0;
    for (const LogitDivergence& divergence : noisy.divergences) sum += divergence.kl();
    LayerSensitivity& layer = result_.layers[noisy.layer];
    layer.roles.push_back({noisy.role, sum / static_cast<double>(noisy.divergences.size())});
    if (std::isfinite(sum)) return {};
    return fail("calibrate.nonfinite",
                fmt::format("with few bits for {} of layer {} the model's logits are NaN or "
                            "infinite, so there is no divergence to measure",
                            noisy.role, layer.layer),
                "calibrate with another text, or without --sensitivity", {.file = options_.source});
  }

  const CalibrateOptions& options_;
  const Plan& plan_;
  const TokenWindows& text_;
  const WeightReader& weights_;
  const CalibrationStats& stats_;
  WindowRun exact_;
  std::vector<NoisyRun> noisy_;
  std::optional<TensorErrorSums> sums_;  // of the last layer
  Sensitivity result_;
};

}  // namespace

Status measure_sensitivity(const CalibrateOptions& options, const Plan& plan,
                           const TokenWindows& text, const WeightReader& weights) {
  if (plan.model.moe.experts == 0)
    return fail("calibrate.no_experts", "the model has no experts to choose bits for",
                "leave out --sensitivity", {.file = options.source});
  MOEC_ASSIGN(const CalibrationStats stats, CalibrationStats::open(options.folder));
  const TokenWindows some = spread_windows(plan, text, options.group_bytes);
  MOEC_ASSIGN(Sensitivity sensitivity, SensitivityRun(options, plan, some, weights, stats).run());
  MOEC_ASSIGN(sensitivity.calibration, digest_file(options.folder + "/" + kCalibrationIndex));
  return write_file({options.folder, kSensitivityFile}, sensitivity_text(sensitivity));
}

}  // namespace moec
