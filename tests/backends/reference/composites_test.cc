// Compares composites with direct formulas in double precision, in both layouts.
#include <algorithm>
#include <cmath>

#include "tests/backends/reference/testing.h"

namespace moec {
namespace {

using testing::ElementsAre;

using Doubles = std::vector<double>;

class ReferenceComposites : public testing::TestWithParam<Layout> {};

INSTANTIATE_TEST_SUITE_P(Layouts, ReferenceComposites,
                         testing::Values(Layout::rows, Layout::channels),
                         [](const auto& info) { return std::string(layout_name(info.param)); });

TEST_P(ReferenceComposites, ComputesRmsNorm) {
  const Tensor x = tokens(GetParam(), 2, 2, {3, 4, -1, 1});
  const Tensor y = run_op(RmsNorm{0.5}, {x, plain({2}, {1, 10})})[0];
  const double first = std::sqrt(12.5 + 0.5), second = std::sqrt(1 + 0.5);
  expect_near(rows_in(y), {3 / first, 40 / first, -1 / second, 10 / second});
}

TEST_P(ReferenceComposites, ComputesLinear) {
  const Tensor x = tokens(GetParam(), 2, 3, {1, 2, 3, 4, 5, 6});
  const Tensor w = plain({2, 3}, {1, 1, 1, 1, 0, -1});
  EXPECT_THAT(rows_in(run_op(Linear{}, {x, w})[0]), ElementsAre(6, -2, 15, -2));
  EXPECT_THAT(rows_in(run_op(Linear{}, {x, w, plain({2}, {10, 20})})[0]),
              ElementsAre(16, 18, 25, 18));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// w [out, in] · x
Doubles times(const Tensor& w, const Doubles& x) {
  Doubles y(static_cast<size_t>(w.type.dims[0]));
  for (size_t o = 0; o < y.size(); ++o)
    for (size_t i = 0; i < x.size(); ++i) y[o] += w.data[o * x.size() + i] * x[i];
  return y;
}

Doubles naive_mlp(const Doubles& x, const Tensor& gate, const Tensor& up, const Tensor& down) {
  Doubles inner = times(gate, x);
  const Doubles linear = times(up, x);
  for (size_t i = 0; i < inner.size(); ++i) inner[i] *= sigmoid(inner[i]) * linear[i];
  return times(down, inner);
}

Tensor random_matrix(uint64_t seed, int64_t rows, int64_t columns) {
  return plain({rows, columns}, random_floats(seed, static_cast<size_t>(rows * columns)));
}

Doubles token(const std::vector<float>& rows, size_t channels, size_t t) {
  return Doubles(rows.begin() + static_cast<std::ptrdiff_t>(t * channels),
                 rows.begin() + static_cast<std::ptrdiff_t>((t + 1) * channels));
}

TEST_P(ReferenceComposites, ComputesGatedMlp) {
  const std::vector<float> rows = random_floats(1, 3 * 5);
  const Tensor gate = random_matrix(2, 7, 5), up = random_matrix(3, 7, 5),
               down = random_matrix(4, 5, 7), shared = random_matrix(5, 1, 5);
  Doubles plain_mlp, gated;
  for (size_t t = 0; t < 3; ++t) {
    const Doubles x = token(rows, 5, t);
    const double weight = sigmoid(times(shared, x)[0]);
    for (double value : naive_mlp(x, gate, up, down)) {
      plain_mlp.push_back(value);
      gated.push_back(value * weight);
    }
  }
  const Tensor x = tokens(GetParam(), 3, 5, rows);
  expect_near(rows_in(run_op(GatedMlp{}, {x, gate, up, down})[0]), plain_mlp);
  expect_near(rows_in(run_op(GatedMlp{}, {x, gate, up, down, shared})[0]), gated);
}

TEST_P(ReferenceComposites, ComputesSoftMoeOfExpertGroups) {
  const std::vector<float> rows = random_floats(1, 2 * 4);
  const std::vector<float> routing = {0.3f, 0, 0.7f, 0, 0, 0.25f, 0.5f, 0.25f};
  std::vector<Tensor> operands = {tokens(GetParam(), 2, 4, rows),
                                  tokens(GetParam(), 2, 4, routing)};
  Doubles expected(8);
  for (size_t e = 0; e < 2; ++e) {
    const Tensor gate = random_matrix(10 + e, 3, 4), up = random_matrix(20 + e, 3, 4),
                 down = random_matrix(30 + e, 4, 3);
    for (size_t t = 0; t < 2; ++t) {
      const Doubles y = naive_mlp(token(rows, 4, t), gate, up, down);
      for (size_t c = 0; c < 4; ++c) expected[t * 4 + c] += routing[t * 4 + 1 + e] * y[c];
    }
    operands.insert(operands.end(), {gate, up, down});
  }
  expect_near(rows_in(run_op(SoftMoe{2, 1}, operands)[0]), expected);
}

TEST_P(ReferenceComposites, IgnoresUnselectedExperts) {
  const float huge = 3e38f;
  const std::vector<Tensor> operands = {tokens(GetParam(), 1, 1, {2}),
                                        tokens(GetParam(), 1, 2, {0, 1}),
                                        plain({1, 1}, {huge}),
                                        plain({1, 1}, {huge}),
                                        plain({1, 1}, {huge}),
                                        plain({1, 1}, {0.5f}),
                                        plain({1, 1}, {1}),
                                        plain({1, 1}, {1})};
  expect_near(rows_in(run_op(SoftMoe{2, 0}, operands)[0]), {sigmoid(1) * 2});
}

// Values within and beyond both bounds; the gate has only an upper bound.
TEST_P(ReferenceComposites, ComputesClampedSwiglu) {
  const Tensor one = plain({1, 1}, {1});
  for (const Gating& gating :
       {Gating{Activation::clamped_swiglu, 7, 1.702}, Gating{Activation::clamped_swiglu, 2.5, 1}}) {
    auto act = [&](double gate, double up) {
      const double a = std::min(gate, gating.limit);
      return a * sigmoid(gating.alpha * a) * (std::clamp(up, -gating.limit, gating.limit) + 1);
    };
    for (double gate : {0.5, 11.0, -11.0})
      for (double up : {0.25, 19.0, -19.0}) {
        const std::vector<Tensor> operands = {tokens(GetParam(), 1, 1, {1}),
                                              plain({1, 1}, {static_cast<float>(gate)}),
                                              plain({1, 1}, {static_cast<float>(up)}), one};
        expect_near(rows_in(run_op(GatedMlp{gating}, operands)[0]), {act(gate, up)});
      }
  }
}

TEST_P(ReferenceComposites, ComputesGeluTanh) {
  for (double gate : {-9.0, -1.5, 0.0, 0.5, 11.0}) {
    const std::vector<Tensor> operands = {tokens(GetParam(), 1, 1, {1}),
                                          plain({1, 1}, {static_cast<float>(gate)}),
                                          plain({1, 1}, {3}), plain({1, 1}, {1})};
    const double inner = std::sqrt(2 / std::acos(-1.0)) * (gate + 0.044715 * std::pow(gate, 3));
    expect_near(rows_in(run_op(GatedMlp{Gating{Activation::gelu_tanh}}, operands)[0]),
                {1.5 * gate * (1 + std::tanh(inner))});
  }
}

// Operands without a gate: x, up and down, first without and then with biases.
TEST_P(ReferenceComposites, ComputesSquaredReluWithoutAGate) {
  const Gating gating{Activation::relu2};
  const Tensor three = plain({1, 1}, {3}), half = plain({1, 1}, {0.5f});
  std::vector<Tensor> operands = {tokens(GetParam(), 2, 1, {2, -2}), three, half};
  expect_near(rows_in(run_op(GatedMlp{gating}, operands)[0]), {18, 0});
  operands.insert(operands.end(), {plain({1}, {7}), plain({1}, {4})});
  expect_near(rows_in(run_op(GatedMlp{gating}, operands)[0]), {0.5 * 169 + 4, 0.5 + 4});
  operands.push_back(half);
  expect_near(rows_in(run_op(GatedMlp{gating}, operands)[0]),
              {88.5 * sigmoid(1), 4.5 * sigmoid(-1)});
  const std::vector<Tensor> experts = {tokens(GetParam(), 1, 1, {2}),
                                       tokens(GetParam(), 1, 2, {0.25f, 0.5f}),
                                       three,
                                       half,
                                       half,
                                       three};
  expect_near(rows_in(run_op(SoftMoe{2, 0, gating}, experts)[0]), {0.25 * 18 + 0.5 * 3});
}

// Appends gate, up and down of one channel, then their biases.
std::vector<Tensor> with_biases(std::vector<Tensor> operands) {
  operands.insert(operands.end(), {plain({1, 1}, {3}), plain({1, 1}, {5}), plain({1, 1}, {0.5f}),
                                   plain({1}, {-5}), plain({1}, {1}), plain({1}, {4})});
  return operands;
}

// Expected output for an input of 2.
double biased_mlp_of_two() { return 0.5 * sigmoid(1) * 11 + 4; }

TEST_P(ReferenceComposites, AddsBiasesOfAGatedMlp) {
  std::vector<Tensor> operands = with_biases({tokens(GetParam(), 1, 1, {2})});
  expect_near(rows_in(run_op(GatedMlp{}, operands)[0]), {biased_mlp_of_two()});
  operands.push_back(plain({1, 1}, {0.5f}));
  expect_near(rows_in(run_op(GatedMlp{}, operands)[0]), {biased_mlp_of_two() * sigmoid(1)});
}

TEST_P(ReferenceComposites, AddsBiasesOfExperts) {
  const std::vector<Tensor> operands =
      with_biases({tokens(GetParam(), 1, 1, {2}), tokens(GetParam(), 1, 2, {0.25f, 0})});
  expect_near(rows_in(run_op(SoftMoe{1, 0}, operands)[0]), {0.25 * biased_mlp_of_two()});
}

// ---- Router ------------------------------------------------------------------------------------

// Expert 1 has no tokens, so its infinite weights do not matter.
TEST(ReferenceMoe, ComputesChosenExpertsOfInterleavedRows) {
  const auto silu = [](double gate, double up) { return gate * sigmoid(gate) * up; };
  const std::vector<Tensor> operands = {tokens(Layout::rows, 2, 1, {1, 2}),
                                        tokens(Layout::rows, 2, 3, {0.5, 0, 0.25, 0, 0, 2}),
                                        plain({3, 4, 1}, {1, 2, 3, 4, kInf, 1, 1, 1, 5, 6, 7, 8}),
                                        plain({3, 1, 2}, {1, -1, kInf, 1, 2, 1})};
  const double first = silu(1, 2) - silu(3, 4), third = 2 * silu(5, 6) + silu(7, 8);
  const double of_second_token = 2 * silu(10, 12) + silu(14, 16);
  expect_near(rows_in(run_op(Moe{2}, operands)[0]),
              {0.5 * first + 0.25 * third, 2 * of_second_token});
}

TEST(ReferenceMoe, AddsBiasesOfChosenExperts) {
  const std::vector<Tensor> operands = {
      tokens(Layout::rows, 1, 1, {1}), tokens(Layout::rows, 1, 2, {0, 0.5}),
      plain({2, 2, 1}, {9, 9, 1, 2}),  plain({2, 1, 1}, {9, 3}),
      plain({2, 2}, {9, 9, 0.5, 1}),   plain({2, 1}, {9, 7})};
  const double gate = 1.5, up = 3;
  expect_near(rows_in(run_op(Moe{1}, operands)[0]), {0.5 * (3 * gate * sigmoid(gate) * up + 7)});
}

// silu is nonlinear, so weighting the input and weighting the output give different results.
TEST_P(ReferenceComposites, AppliesRoutingWeightsToInputs) {
  const Tensor x = tokens(GetParam(), 1, 1, {4}), routing = tokens(GetParam(), 1, 2, {0.5f, 0});
  const Tensor one = plain({1, 1}, {1}), three = plain({1, 1}, {3});
  const std::vector<Tensor> operands = {x, routing, one, three, one, one, one, one};
  const SoftMoe op{.experts = 2, .weight_on = RoutedWeight::input};
  expect_near(rows_in(run_op(op, operands)[0]), {2 * sigmoid(2) * 6});
}

std::vector<float> route(Layout layout, const Router& op, const std::vector<float>& logits,
                         const std::vector<float>& bias = {}) {
  const auto experts = static_cast<int64_t>(logits.size());
  std::vector<Tensor> operands = {tokens(layout, 1, experts, logits)};
  if (!bias.empty()) operands.push_back(plain({experts}, bias));
  return rows_in(run_op(op, operands)[0]);
}

TEST_P(ReferenceComposites, KeepsLargestSoftmaxScores) {
  const double sum = std::exp(1) + std::exp(3) + std::exp(2) + std::exp(0);
  const std::vector<float> logits = {1, 3, 2, 0};
  expect_near(route(GetParam(), {.top_k = 2}, logits),
              {0, std::exp(3) / sum, std::exp(2) / sum, 0});
  const double kept = std::exp(3) + std::exp(2);
  expect_near(route(GetParam(), {.top_k = 2, .renorm = Renorm::sum, .scale = 2.5}, logits),
              {0, 2.5 * std::exp(3) / kept, 2.5 * std::exp(2) / kept, 0});
}

TEST_P(ReferenceComposites, RoutesSeveralTokens) {
  const Tensor logits = tokens(GetParam(), 2, 3, {5, 0, 0, 0, 0, 5});
  const std::vector<float> weights =
      rows_in(run_op(Router{.top_k = 1, .renorm = Renorm::sum}, {logits})[0]);
  EXPECT_THAT(weights, ElementsAre(1, 0, 0, 0, 0, 1));
}

TEST_P(ReferenceComposites, BreaksRouterTiesByLowestIndex) {
  EXPECT_THAT(route(GetParam(), {.top_k = 2, .renorm = Renorm::sum}, {0, 1, 1, 1}),
              ElementsAre(0, 0.5f, 0.5f, 0));
}

TEST_P(ReferenceComposites, AppliesSoftmaxToSelectedLogits) {
  const double big = 1 / (1 + std::exp(-1.0));
  expect_near(route(GetParam(), {.score = Score::softmax_selected, .top_k = 2}, {1, 3, 2, -4}),
              {0, big, 1 - big, 0});
}

TEST_P(ReferenceComposites, AppliesSigmoidToSelectedLogits) {
  const Router op{.score = Score::sigmoid_selected, .top_k = 1};
  // Both sigmoids round to 1 in f32; the logits still differ.
  expect_near(route(GetParam(), op, {30, 40, -4}), {0, 1, 0});
  expect_near(route(GetParam(), op, {0.5f, -1, 0}, {0, 3, 0}), {0, sigmoid(-1), 0});
}

// Of 4, 3.9, 1 and -4, the first pick is 4, and only 3.9 is near it. The second pick is 3.9, alone.
TEST_P(ReferenceComposites, ComputesSparsemixer) {
  Router op{.score = Score::sparsemixer, .top_k = 2, .eps = 0.0125};
  expect_near(route(GetParam(), op, {4, 1, 3.9f, -4}), {sigmoid(0.1), 0, 1, 0});
  // 2 · 0.5 · |-4| reaches 4 below the largest logit, exactly to the second pick.
  op.eps = 0.5;
  const double far = std::exp(-4) + std::exp(-8);
  expect_near(route(GetParam(), op, {0, -4, -8}), {1 / (1 + far), 1 / (1 + std::exp(-4)), 0});
}

// The bias affects the selection but not the routing weight.
TEST_P(ReferenceComposites, AddsBiasToSelectionOnly) {
  const std::vector<float> logits = {2, 1, 0}, bias = {-1, 0, 0.5f};
  const Router op{.score = Score::sigmoid, .top_k = 2};
  expect_near(route(GetParam(), op, logits, bias), {0, sigmoid(1), sigmoid(0)});
}

TEST_P(ReferenceComposites, NormalizesRoutingWeights) {
  const std::vector<float> logits = {0, -50, -50};
  Router op{.score = Score::sigmoid, .top_k = 1, .renorm = Renorm::sum_plus_eps, .eps = 0.25};
  expect_near(route(GetParam(), op, logits), {0.5 / 0.75, 0, 0});
  op.renorm = Renorm::max_eps;
  expect_near(route(GetParam(), op, logits), {1, 0, 0});
  op.eps = 2;
  expect_near(route(GetParam(), op, logits), {0.25, 0, 0});
}

// Scores by group: .9 .1 | .6 .5 | .7 .2. Groups 0 and 2 have the best maximum; by pair sums (1.0,
// 1.1, 0.9), group 1 is first and group 0 second.
TEST_P(ReferenceComposites, KeepsBestRouterGroups) {
  std::vector<float> logits;
  for (double score : {0.9, 0.1, 0.6, 0.5, 0.7, 0.2})
    logits.push_back(static_cast<float>(std::log(score / (1 - score))));
  Router op{.score = Score::sigmoid, .top_k = 3, .groups = 3, .groups_kept = 2};
  expect_near(route(GetParam(), op, logits), {0.9, 0, 0, 0, 0.7, 0.2});
  op.group_score = GroupScore::top2_sum;
  expect_near(route(GetParam(), op, logits), {0.9, 0, 0.6, 0.5, 0, 0});
}

// Experts of dropped groups are never selected, even if all others have negative scores.
TEST_P(ReferenceComposites, NeverSelectsFromADroppedGroup) {
  const Router op{.score = Score::sigmoid, .top_k = 2, .groups = 2, .groups_kept = 1};
  const std::vector<float> weights = route(GetParam(), op, {0, 0, 0, 0}, {-1, -9, -2, -2});
  EXPECT_THAT(weights, ElementsAre(0.5f, 0.5f, 0, 0));
}

}  // namespace
}  // namespace moec
