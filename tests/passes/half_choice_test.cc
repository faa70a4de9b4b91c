// The choice of experts in f16. The differences between experts must not be rounded away, neither
// by a common offset of the correction biases nor by scores near 1.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "ir/graph/scalar.h"
#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

constexpr int64_t kExperts = 64, kTokens = 600, kChosen = 6;

// Multiples of 2^-14 in ±1/8, so the sum with an offset is exact in f32.
std::vector<double> random_biases(std::mt19937& random) {
  std::uniform_int_distribution<int> steps(-2048, 2048);
  std::vector<double> biases(kExperts);
  for (double& bias : biases) bias = steps(random) * 0x1p-14;
  return biases;
}

// The biases plus `offset`, stored in f32 as in a checkpoint.
WeightView stored(const std::vector<double>& biases, double offset) {
  std::vector<WeightView> parts;
  for (double bias : biases) parts.push_back(splat_view(bias + offset, {DType::f32, {1}}));
  return concat_view(0, std::move(parts));
}

Shard half_router(const Router& router, const std::vector<double>& biases, double offset) {
  Builder b("router", Form::model);
  ValueId logits = b.input("logits", token_type(DType::f16, Layout::rows, kExperts, kTokens));
  const WeightView centered = then(stored(biases, offset), CenterStep{});
  ValueId high = b.weight(then(centered, CastStep{DType::f16}), "bias");
  ValueId low =
      b.weight(then(then(centered, RemainderStep{DType::f16}), CastStep{DType::f16}), "bias_low");
  b.output("routing", b.emit(router, {logits, high, low}, "routing"));
  return b.finish();
}

Tensor random_logits(std::mt19937& random, double spread) {
  std::normal_distribution<float> normal(0, static_cast<float>(spread));
  Tensor logits{token_type(DType::f16, Layout::rows, kExperts, kTokens), {}};
  for (int64_t i = 0; i < kTokens * kExperts; ++i)
    logits.data.push_back(round_to(DType::f16, normal(random)));
  return logits;
}

std::vector<float> routed(const Shard& shard, RoutingForm form, const Tensor& logits) {
  return outputs_of(run_passes(shard, "lower_router", {.routing = form}), {logits})[0].data;
}

// ---- In double precision -----------------------------------------------------------------------

std::vector<size_t> best(const std::vector<double>& values, size_t k) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<double> choice_of(Score score, const float* logits, const std::vector<double>& biases) {
  EXPECT_TRUE(score == Score::softmax || score == Score::sigmoid)
      << "no choice in double precision for " << at(kScores, score).name;
  std::vector<double> choice;
  double total = 0;
  for (size_t e = 0; e < kExperts; ++e) {
    const double z = logits[e];
    choice.push_back(score == Score::softmax ? std::exp(z) : 1 / (1 + std::exp(-z)));
    total += choice.back();
  }
  for (size_t e = 0; e < kExperts; ++e)
    choice[e] = choice[e] / (score == Score::softmax ? total : 1) + biases[e];
  return choice;
}

// Sets the scores of groups that are not kept below all other scores.
void close_groups(const Router& router, std::vector<double>& choice) {
  const auto groups = static_cast<size_t>(router.groups), size = choice.size() / groups;
  std::vector<double> of_group;
  for (size_t g = 0; g < groups; ++g) {
    const auto begin = choice.begin() + static_cast<ptrdiff_t>(g * size);
    std::vector<double> members(begin, begin + static_cast<ptrdiff_t>(size));
    std::sort(members.rbegin(), members.rend());
    of_group.push_back(members[0] + members[1]);
  }
  const std::vector<size_t> kept = best(of_group, static_cast<size_t>(router.groups_kept));
  for (size_t e = 0; e < choice.size(); ++e)
    if (std::find(kept.begin(), kept.end(), e / size) == kept.end()) choice[e] -= 1e6;
}

// Counts tokens whose experts differ from the choice in double precision.
int wrong_sets(const Router& router, const Tensor& logits, const std::vector<double>& biases,
               const std::vector<float>& weights) {
  int wrong = 0;
  for (size_t t = 0; t < kTokens; ++t) {
    std::vector<double> choice = choice_of(router.score, logits.data.data() + t * kExperts, biases);
    if (router.groups > 1) close_groups(router, choice);
    std::vector<size_t> chosen;
    for (size_t e = 0; e < kExperts; ++e)
      if (weights[t * kExperts + e] != 0) chosen.push_back(e);
    wrong += chosen != best(choice, kChosen);
  }
  return wrong;
}

const Router kRouters[] = {{.score = Score::sigmoid, .top_k = kChosen, .renorm = Renorm::sum},
                           {.score = Score::softmax, .top_k = kChosen, .renorm = Renorm::sum},
                           {.score = Score::sigmoid,
                            .top_k = kChosen,
                            .renorm = Renorm::sum,
                            .groups = 8,
                            .groups_kept = 4,
                            .group_score = GroupScore::top2_sum}};

TEST(HalfChoice, IgnoresTheOffsetOfBiases) {
  std::mt19937 random(7);
  const std::vector<double> biases = random_biases(random);
  for (const Router& router : kRouters)
    for (double spread : {0.5, 3.0}) {
      const Tensor logits = random_logits(random, spread);
      const std::vector<float> plain =
          routed(half_router(router, biases, 0), RoutingForm::rank, logits);
      EXPECT_LE(wrong_sets(router, logits, biases, plain), kTokens / 100);
      for (RoutingForm form : {RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk})
        for (double offset : {0.0, 7.0, -35.0, 1000.0})
          EXPECT_EQ(routed(half_router(router, biases, offset), form, logits), plain)
              << enum_name(form) << ", offset " << offset;
    }
}

// Without a bias, logits break ties between equal f16 scores.
TEST(HalfChoice, BreaksTiesOfScoresByLogits) {
  for (Score score : {Score::softmax, Score::sigmoid}) {
    Builder b("router", Form::model);
    ValueId logits = b.input("logits", token_type(DType::f16, Layout::rows, 4, 1));
    b.output("routing", b.emit(Router{.score = score, .top_k = 1}, {logits}, "routing"));
    const Shard shard = b.finish();
    const Tensor input{shard.type(shard.inputs[0]), {4, 4.0078125f, 4.015625f, -9}};
    for (RoutingForm form : {RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk}) {
      const std::vector<float> weights = routed(shard, form, input);
      EXPECT_THAT(std::vector<bool>({weights[0] != 0, weights[1] != 0, weights[2] != 0}),
                  testing::ElementsAre(false, false, true))
          << enum_name(score) << ", " << enum_name(form);
    }
  }
}

// A bias beyond the range of f16 decides the choice and does not produce NaN.
TEST(HalfChoice, AcceptsBiasesBeyondF16) {
  std::vector<double> biases(kExperts, 0.0);
  for (size_t e : {3u, 17u, 40u}) biases[e] = -1e9;
  biases[5] = 1e9;
  std::mt19937 random(7);
  const Tensor logits = random_logits(random, 1);
  for (const Router& router : kRouters)
    for (RoutingForm form : {RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk}) {
      const std::vector<float> weights = routed(half_router(router, biases, 0), form, logits);
      for (size_t t = 0; t < kTokens; ++t) {
        for (size_t e : {3u, 17u, 40u}) EXPECT_EQ(weights[t * kExperts + e], 0);
        EXPECT_GT(weights[t * kExperts + 5], 0);
      }
    }
}

// ---- The router with its norm and projection ---------------------------------------------------

constexpr int64_t kHidden = 96;

struct WholeRouter {
  double spread = 3;         // standard deviation of the hidden states
  bool router_bias = false;  // the projection has a bias
  bool choice_bias = false;
};

// hidden → RMS norm → logits → routing weights.
Shard whole_router(const WholeRouter& of, DType dtype) {
  Builder b("router", Form::model);
  ValueId hidden = b.input("hidden", token_type(dtype, Layout::rows, kHidden, kTokens));
  const auto seeded = [&](uint64_t seed, Dims dims, double scale, const char* name) {
    WeightView view = then(seeded_view(seed, {DType::f32, std::move(dims)}), ScaleStep{scale});
    return b.weight(then(std::move(view), CastStep{dtype}), name);
  };
  ValueId norm = b.emit(RmsNorm{1e-6}, {hidden, seeded(3, {kHidden}, 1, "norm.weight")}, "norm");
  ValueId w = seeded(4, {kExperts, kHidden}, 0.5, "router.weight");
  std::vector<ValueId> linear = {norm, w};
  if (of.router_bias) linear.push_back(seeded(5, {kExperts}, 2, "router.bias"));
  std::vector<ValueId> operands = {b.emit(Linear{}, std::move(linear), "logits")};
  if (of.choice_bias) operands.push_back(seeded(6, {kExperts}, 0x1p-6, "choice_bias"));
  const Router router{.score = Score::softmax, .top_k = kChosen, .renorm = Renorm::sum};
  b.output("routing", b.emit(router, std::move(operands), "routing"));
  return b.finish();
}

int tokens_that_differ(const std::vector<float>& left, const std::vector<float>& right) {
  int differing = 0;
  for (size_t t = 0; t < kTokens; ++t) {
    bool same = true;
    for (size_t e = t * kExperts; e < (t + 1) * kExperts; ++e)
      same &= (left[e] != 0) == (right[e] != 0);
    differing += !same;
  }
  return differing;
}

Tensor random_hidden(std::mt19937& random, double spread) {
  std::normal_distribution<float> normal(0, static_cast<float>(spread));
  Tensor hidden{token_type(DType::f16, Layout::rows, kHidden, kTokens), {}};
  for (int64_t i = 0; i < kTokens * kHidden; ++i)
    hidden.data.push_back(round_to(DType::f16, normal(random)));
  return hidden;
}

// Counts tokens, of `rounds` times 600, whose experts differ between f16 and f32. Both use the same
// f16 hidden states, and f32 weights as in the checkpoint.
int wrong_tokens(const WholeRouter& of, const PassOptions& options, int rounds) {
  const Shard exact = run_passes(whole_router(of, DType::f32), "lower_router", options);
  const Shard half =
      run_passes(whole_router(of, DType::f16), "lower_router,lower_rms_norm", options);
  std::mt19937 random(11);
  int wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    Tensor hidden = random_hidden(random, of.spread);
    const std::vector<float> got = outputs_of(half, {hidden})[0].data;
    hidden.type.dtype = DType::f32;
    wrong += tokens_that_differ(got, outputs_of(exact, {hidden})[0].data);
  }
  return wrong;
}

// The channel limit excludes the value that joins inputs and logits, so logits are not split into
// halves.
PassOptions narrow() {
  PassOptions options;
  options.target.limits.channels = kHidden + kExperts - 1;
  return options;
}

// The second halves compensate for the rounding of weights, norm and logits.
TEST(HalfChoice, KeepsChoicesUpToTheLogits) {
  for (RoutingForm form : {RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk})
    EXPECT_LE(wrong_tokens({}, {.routing = form}, 10), 1) << enum_name(form);
  EXPECT_GT(wrong_tokens({}, narrow(), 10), 20);
}

TEST(HalfChoice, KeepsChoicesAtAnyInputMagnitude) {
  for (double spread : {0.002, 0.05, 60.0, 9000.0})
    EXPECT_LE(wrong_tokens({.spread = spread}, {}, 5), 1) << spread;
}

// The bias is multiplied by the root mean square, which f16 rounds to 11 bits.
TEST(HalfChoice, LimitsErrorsWithAProjectionBias) {
  const WholeRouter biased{.router_bias = true};
  EXPECT_LE(2 * wrong_tokens(biased, {}, 5), wrong_tokens(biased, narrow(), 5));
}

// Scores need the logits divided by the root mean square, which f16 rounds.
TEST(HalfChoice, LimitsErrorsWithBiasedScores) {
  const WholeRouter biased{.choice_bias = true};
  EXPECT_LT(3 * wrong_tokens(biased, {}, 5), 2 * wrong_tokens(biased, narrow(), 5));
}

}  // namespace
}  // namespace moec
