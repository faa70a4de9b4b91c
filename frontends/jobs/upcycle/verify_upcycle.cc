#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backends/runtime/session/step_inputs.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/checkpoint/counted_normal.h"
#include "frontends/jobs/upcycle/upcycle_model.h"
#include "frontends/measure/metrics.h"
#include "frontends/measure/text.h"
#include "frontends/measure/window_plan.h"
#include "frontends/measure/window_run.h"
#include "frontends/sources/open_source.h"
#include "models/shards/build_shard.h"

namespace moec {
namespace {

// The memory for the experts of a layer, as in the default of moec calibrate.
constexpr uint64_t kGroupBytes = uint64_t{1} << 30;
constexpr int64_t kBundledTokens = 128;

// Raises `worst` to `value` if that is larger. Unlike std::max, propagates NaN.
void raise(double& worst, double value) {
  if (std::isnan(value) || value > worst) worst = value;
}

// Running comparison of one token's logits. Slices of the vocabulary are added one by one.
struct TokenComparison {
  double largest = 0, difference = 0;
  float best_dense = -HUGE_VALF, best_new = -HUGE_VALF;
  int64_t likeliest_dense = -1, likeliest_new = -1;
  LogitDivergence divergence;

  void add(std::span<const float> dense, std::span<const float> made, int64_t first) {
    for (size_t i = 0; i < dense.size(); ++i) {
      const auto x = static_cast<double>(dense[i]), y = static_cast<double>(made[i]);
      // The scale of the token's logits; NaN in the dense model is reported through `difference`.
      largest = std::max(largest, std::abs(x));
      raise(difference, std::abs(x - y));
      take(dense[i], first + static_cast<int64_t>(i), best_dense, likeliest_dense);
      take(made[i], first + static_cast<int64_t>(i), best_new, likeliest_new);
    }
    divergence.add(dense, made);
  }

 private:
  static void take(float value, int64_t index, float& best, int64_t& likeliest) {
    // Ties keep the lowest index, as argmax does.
    if (value <= best) return;
    best = value;
    likeliest = index;
  }
};

// One of the two models. Runs all layers, then returns logits per slice of the vocabulary.
class ModelRun {
 public:
  static Result<ModelRun> open(const std::string& source, const FamilyOptions& family,
                               const Text& text) {
    MOEC_ASSIGN(Checkpoint checkpoint, open_source(source, family, equal_tensors));
    MOEC_ASSIGN(Plan plan, window_plan(std::move(checkpoint.config), std::move(checkpoint.weights),
                                       text.window, kGroupBytes));
    MOEC_ASSIGN(WeightReader weights, WeightReader::open(plan.weights));
    return ModelRun(std::make_unique<Plan>(std::move(plan)), std::move(weights), text);
  }

  bool is_head(size_t step) const { return decl(step).layer < 0; }
  size_t steps() const { return plan_->schedule.size(); }
  const ShardDecl& decl(size_t step) const { return plan_->shards[plan_->schedule[step].shard]; }

  Status run_layers(const Observer& observer) { return run_.layers(weights_, observer); }
  // Bytes of the hidden states of a window after one step, as moec calibrate counts its work.
  uint64_t step_bytes() const {
    return static_cast<uint64_t>(text_.window * plan_->model.hidden) * sizeof(float);
  }
  uint64_t layers_bytes() const { return run_.layer_steps() * step_bytes(); }

  Result<Executor> executor_of(size_t step) const {
    MOEC_ASSIGN(const Shard body, build_shard(*plan_, plan_->schedule[step].shard, text_.window));
    return Executor::create(body, weights_);
  }

  // Returns the logits of one head step, which is one slice of the vocabulary.
  Result<Rows> logits(size_t step, Executor& executor, int64_t window) {
    MOEC_ASSIGN(const std::vector<Tensor> outputs, run_.run_window(step, executor, window));
    return unpack_rows(outputs.front(), text_.window);
  }

 private:
  ModelRun(std::unique_ptr<Plan> plan, WeightReader weights, const Text& text)
      : plan_(std::move(plan)), weights_(std::move(weights)), text_(text), run_(*plan_, text) {}

  std::unique_ptr<Plan> plan_;  // run_ keeps a reference
  WeightReader weights_;
  const Text& text_;
  WindowRun run_;
};

// Counts picks per token, layer and group of experts.
class GroupPicks {
 public:
  explicit GroupPicks(int64_t group) : group_(group) {}

  void add(const TextChunk& window, int64_t layer, const ExpertRows& rows) {
    for (const int64_t token : rows.tokens)
      // Padding tokens of the last window do not count.
      if (token < window.count()) ++picks_[{layer, window.first + token}][rows.expert / group_];
  }

  void count(UpcycleComparison& comparison) const {
    comparison.choices = std::ssize(picks_);
    comparison.whole = std::count_if(picks_.begin(), picks_.end(), [&](const auto& choice) {
      // A whole group was picked if each of its experts was.
      return std::all_of(choice.second.begin(), choice.second.end(),
                         [&](const auto& group) { return group.second == group_; });
    });
  }

 private:
  using Choice = std::pair<int64_t, int64_t>;  // layer, token
  int64_t group_;
  std::map<Choice, std::map<int64_t, int64_t>> picks_;
};

Status compare_heads(ModelRun& dense, ModelRun& made, const Text& text,
                     std::vector<TokenComparison>& tokens) {
  // The new model has other steps before its head, so the heads are aligned separately.
  size_t other = 0;
  while (!made.is_head(other)) ++other;
  for (size_t step = 0; step < dense.steps(); ++step) {
    if (!dense.is_head(step)) continue;
    MOEC_ASSIGN(Executor dense_head, dense.executor_of(step));
    MOEC_ASSIGN(Executor made_head, made.executor_of(other));
    // Both models slice the vocabulary alike, because the sizes of their heads are equal.
    for (int64_t window = 0; window < text.windows(); ++window) {
      MOEC_ASSIGN(const Rows a, dense.logits(step, dense_head, window));
      MOEC_ASSIGN(const Rows b, made.logits(other, made_head, window));
      for (int64_t row = 0; row < text.used(window); ++row)
        tokens[static_cast<size_t>(window * text.window + row)].add(a.row(row), b.row(row),
                                                                    dense.decl(step).vocab_begin);
    }
    ++other;
  }
  return {};
}

UpcycleComparison summary_of(const std::vector<TokenComparison>& tokens) {
  UpcycleComparison sum;
  int64_t same = 0;
  for (const TokenComparison& token : tokens) {
    if (token.likeliest_dense < 0) continue;  // padding of a window
    ++sum.tokens;
    // Relative to the largest logit, because logits of models differ in scale.
    const double error = token.largest > 0 ? token.difference / token.largest : token.difference;
    raise(sum.max_error, error);
    sum.mean_kl += token.divergence.kl();
    same += token.likeliest_dense == token.likeliest_new ? 1 : 0;
  }
  // max() avoids a division by zero for an empty text.
  const auto count = static_cast<double>(std::max<int64_t>(1, sum.tokens));
  sum.mean_kl /= count;
  sum.top1 = static_cast<double>(same) / count;
  return sum;
}

// Uniformly distributed token ids below the vocabulary size.
Text bundled_tokens(int64_t vocab, int64_t window) {
  std::vector<int64_t> tokens;
  const int64_t count = std::max<int64_t>(1, kBundledTokens / window) * window;
  for (int64_t i = 0; i < count; ++i)
    // The tokens are a pure function of the vocabulary, so the result is reproducible.
    tokens.push_back(static_cast<int64_t>(seed_for(static_cast<uint64_t>(i), "token") %
                                          static_cast<uint64_t>(vocab)));
  return cut_tokens(std::move(tokens), window);
}

Result<Text> text_of(const UpcycleOptions& options, const ModelConfig& model) {
  const VerifyOptions& verify = options.verify;
  const int64_t window = std::min(verify.window, model.max_positions);
  if (verify.texts.empty() && verify.tokens_file.empty())
    return bundled_tokens(model.vocab, window);
  return read_windows({"upcycle", options.source, verify.texts, given_file(verify.tokens_file)},
                      source_tokenizer(options.source, model.vocab), window);
}

}  // namespace

Result<UpcycleComparison> verify_upcycle(const UpcycleOptions& options, const UpcyclePlan& plan,
                                         const std::string& folder) {
  MOEC_ASSIGN(const Text text, text_of(options, plan.source));
  Observer observer;
  observer.begin = [&](const TextChunk&) -> Status {
    if (!options.hooks.stop || !options.hooks.stop()) return {};
    return fail(kUpcycle.interrupted(), "the comparison was stopped", {}, {.file = folder});
  };
  MOEC_ASSIGN(ModelRun dense, ModelRun::open(options.source, options.family, text));
  MOEC_ASSIGN(ModelRun made, ModelRun::open(folder, result_family(options), text));
  GroupPicks picks(plan.group);
  const uint64_t total =
      static_cast<uint64_t>(text.windows()) * (dense.layers_bytes() + made.layers_bytes());
  // Called after each window of each shard.
  const auto advance = [&](const ModelRun& run) {
    return [&options, &run, total](const TextChunk&) -> Status {
      if (options.hooks.progress) options.hooks.progress(run.step_bytes(), total, "comparison");
      return {};
    };
  };
  observer.end = advance(dense);
  MOEC_TRY(dense.run_layers(observer));
  observer.end = advance(made);
  // Each model runs alone, so that the weights of only one layer are in memory.
  observer.experts = [&](const TextChunk& window, int64_t layer, const ExpertRows& rows) {
    picks.add(window, layer, rows);
  };
  MOEC_TRY(made.run_layers(observer));
  std::vector<TokenComparison> tokens(text.tokens.size());
  MOEC_TRY(compare_heads(dense, made, text, tokens));
  UpcycleComparison comparison = summary_of(tokens);
  picks.count(comparison);
  if (std::isfinite(comparison.max_error)) return comparison;
  return fail("upcycle.nonfinite", "logits are NaN or infinite and cannot be compared",
              "check the source on this text", {.file = options.source});
}

}  // namespace moec
