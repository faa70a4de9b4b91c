// Compares each exact routing form with a sparse reference that sorts in double precision, on more
// than 20,000 random score vectors with many ties.
#include <algorithm>
#include <numeric>
#include <random>

#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

// ---- The oracle --------------------------------------------------------------------------------

struct Routed {
  std::vector<int> chosen;      // ascending
  std::vector<double> weights;  // of all experts
  // The choice depends on a tiny nonzero difference, so f32 may choose differently.
  bool ambiguous = false;
};

std::vector<double> scores_of(Score score, const std::vector<double>& logits) {
  std::vector<double> scores = logits;
  double total = 0;
  switch (score) {
    case Score::softmax:
      for (double& s : scores) total += s = std::exp(s);
      for (double& s : scores) s /= total;
      break;
    case Score::sigmoid:
      for (double& s : scores) s = 1 / (1 + std::exp(-s));
      break;
    case Score::softmax_selected:
    case Score::sigmoid_selected:
    case Score::sparsemixer:  // they choose by the logits
      break;
  }
  return scores;
}

// Returns the k best candidates; the lowest index wins ties.
std::vector<int> best(const std::vector<double>& values, std::vector<int> candidates, int64_t k,
                      bool& ambiguous) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](int a, int b) { return values[a] > values[b]; });
  if (k < static_cast<int64_t>(candidates.size())) {
    const double last = values[candidates[k - 1]], next = values[candidates[k]];
    const double apart = last - next;
    ambiguous |= apart != 0 && apart < 1e-5 * std::max({std::abs(last), std::abs(next), 0.01});
    candidates.resize(k);
  }
  return candidates;
}

double group_value(const Router& router, const std::vector<double>& choice, int64_t group,
                   int64_t size) {
  std::vector<double> members(choice.begin() + group * size, choice.begin() + (group + 1) * size);
  std::sort(members.rbegin(), members.rend());
  return router.group_score == GroupScore::max ? members[0] : members[0] + members[1];
}

std::vector<int> candidates_of(const Router& router, const std::vector<double>& choice,
                               bool& ambiguous) {
  const auto experts = static_cast<int64_t>(choice.size());
  const int64_t size = experts / router.groups;
  std::vector<double> values;
  std::vector<int> all(router.groups), candidates;
  for (int64_t g = 0; g < router.groups; ++g)
    values.push_back(group_value(router, choice, g, size));
  std::iota(all.begin(), all.end(), 0);
  std::vector<int> kept = best(values, all, router.groups_kept, ambiguous);
  std::sort(kept.begin(), kept.end());
  for (int g : kept)
    for (int64_t i = 0; i < size; ++i) candidates.push_back(static_cast<int>(g * size + i));
  return candidates;
}

double divisor(const Router& router, double total) {
  switch (router.renorm) {
    case Renorm::none:
      return 1;
    case Renorm::sum:
      return total;
    case Renorm::sum_plus_eps:
      return total + router.eps;
    case Renorm::max_eps:
      return std::max(total, router.eps);
  }
  return 1;
}

// The pick's share of the softmax over the open logits within its reach.
double share(const std::vector<double>& logits, const std::vector<bool>& open, int pick, double eps,
             bool& ambiguous) {
  double near = 0;
  for (size_t e = 0; e < logits.size(); ++e) {
    if (!open[e]) continue;
    const double reach = 2 * eps * std::max(std::abs(logits[e]), logits[pick]);
    const double behind = logits[pick] - logits[e];
    ambiguous |= behind > 0 && std::abs(behind - reach) < 1e-5;
    if (behind <= reach) near += std::exp(-behind);
  }
  return 1 / near;
}

Routed mix(const Router& router, const std::vector<double>& logits) {
  Routed routed;
  routed.weights.assign(logits.size(), 0);
  std::vector<bool> open(logits.size(), true);
  for (int64_t i = 0; i < router.top_k; ++i) {
    int pick = -1;
    for (int e = 0; e < static_cast<int>(logits.size()); ++e)
      if (open[e] && (pick < 0 || logits[e] > logits[pick])) pick = e;
    routed.weights[pick] = router.scale * share(logits, open, pick, router.eps, routed.ambiguous);
    routed.chosen.push_back(pick);
    open[pick] = false;
  }
  std::sort(routed.chosen.begin(), routed.chosen.end());
  return routed;
}

Routed route(const Router& router, const std::vector<double>& logits,
             const std::vector<double>& bias) {
  if (router.score == Score::sparsemixer) return mix(router, logits);
  const std::vector<double> scores = scores_of(router.score, logits);
  std::vector<double> choice = scores;
  for (size_t e = 0; e < bias.size(); ++e) choice[e] += bias[e];
  Routed routed;
  routed.chosen =
      best(choice, candidates_of(router, choice, routed.ambiguous), router.top_k, routed.ambiguous);
  std::sort(routed.chosen.begin(), routed.chosen.end());
  routed.weights.assign(scores.size(), 0);
  const bool selected = router.score == Score::softmax_selected;
  const bool opened = router.score == Score::sigmoid_selected;
  double total = 0;
  for (int e : routed.chosen)
    total += routed.weights[e] = selected ? std::exp(scores[e])
                                 : opened ? 1 / (1 + std::exp(-scores[e]))
                                          : scores[e];
  const double divide_by = selected ? total : divisor(router, total);
  for (int e : routed.chosen) routed.weights[e] *= router.scale / divide_by;
  return routed;
}

// ---- The cases ---------------------------------------------------------------------------------

struct Size {
  int64_t experts, top_k;
};

constexpr Size kSizes[] = {{2, 1},  {2, 2},   {3, 2},   {4, 1},   {5, 3},   {6, 4},  {8, 1},
                           {8, 2},  {16, 2},  {16, 4},  {16, 16}, {32, 8},  {60, 4}, {64, 6},
                           {64, 8}, {128, 8}, {160, 6}, {256, 8}, {512, 10}};

// Every routing configuration that a router of this size can express.
std::vector<Router> routers_of(const Size& size) {
  std::vector<Router> routers = {
      {.score = Score::softmax_selected, .top_k = size.top_k, .scale = 1.0},
      {.score = Score::softmax_selected, .top_k = size.top_k, .scale = 1.5}};
  if (size.top_k == 2)
    for (double eps : {0.0, 0.0107, 0.3})
      routers.push_back({.score = Score::sparsemixer, .top_k = 2, .eps = eps});
  for (Score score : {Score::softmax, Score::sigmoid, Score::sigmoid_selected})
    for (Renorm renorm : {Renorm::none, Renorm::sum, Renorm::sum_plus_eps, Renorm::max_eps})
      for (int64_t groups : {1, 4, 8})
        for (GroupScore group_score : {GroupScore::max, GroupScore::top2_sum}) {
          const int64_t members = size.experts / groups, kept = (groups + 1) / 2;
          const bool ungrouped_twice = groups == 1 && group_score == GroupScore::top2_sum;
          if (size.experts % groups != 0 || members < 2 || ungrouped_twice ||
              size.top_k > members * kept)
            continue;
          routers.push_back({.score = score,
                             .top_k = size.top_k,
                             .renorm = renorm,
                             .eps = renorm == Renorm::max_eps ? 0.3 : 1e-3,
                             .scale = groups == 1 ? 1.0 : 2.5,
                             .groups = groups,
                             .groups_kept = groups == 1 ? 1 : kept,
                             .group_score = group_score});
        }
  return routers;
}

// A small number of distinct values makes ties frequent. Multiples of 1/64 make the sum of bias and
// logit exact. The offset prevents pairs x and -x, whose sigmoids add up to 1 only in exact
// arithmetic.
std::vector<double> tied_values(std::mt19937& random, int64_t count, double step, double offset) {
  std::uniform_int_distribution<int> level(-8, 8);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(step * level(random) + offset));
  return values;
}

struct Batch {
  Router router;
  int64_t experts, tokens;
  Layout layout;
  std::vector<double> bias;                 // empty if the router has none
  std::vector<std::vector<double>> logits;  // per token

  Shard shard() const {
    Builder b("router", Form::model);
    std::vector<ValueId> operands = {
        b.input("logits", token_type(DType::f32, layout, experts, tokens))};
    if (!bias.empty()) operands.push_back(b.constant({DType::f32, {experts}}, bias, "choice_bias"));
    b.output("routing", b.emit(router, operands, "routing"));
    return b.finish();
  }
  // Index of the element for a token and an expert.
  size_t at(int64_t token, int64_t expert) const {
    const int64_t index =
        layout == Layout::rows ? token * experts + expert : expert * tokens + token;
    return static_cast<size_t>(index);
  }
  std::vector<Tensor> inputs() const {
    Tensor x{token_type(DType::f32, layout, experts, tokens), {}};
    x.data.resize(static_cast<size_t>(experts * tokens));
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t e = 0; e < experts; ++e) x.data[at(t, e)] = static_cast<float>(logits[t][e]);
    return {x};
  }
};

Batch random_batch(std::mt19937& random, const Size& size, const Router& router, bool biased) {
  // The pairwise comparisons of `rank` need experts² · tokens elements.
  const int64_t tokens = std::clamp<int64_t>(120000 / (size.experts * size.experts), 2, 40);
  Batch batch{router, size.experts, tokens, kTokenLayouts[random() % 3], {}, {}};
  if (biased) batch.bias = tied_values(random, size.experts, 1.0 / 64, 0);
  for (int64_t t = 0; t < tokens; ++t)
    batch.logits.push_back(tied_values(random, size.experts, t % 2 ? 0.5 : 0.0625, 5.0 / 64));
  return batch;
}

struct Tally {
  int vectors = 0, ambiguous = 0, tied = 0, wrong_sets = 0, wrong_weights = 0;
};

bool has_ties(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) != values.end();
}

void compare(const Batch& batch, const std::vector<float>& got, Tally& tally) {
  for (int64_t t = 0; t < batch.tokens; ++t) {
    const Routed wanted = route(batch.router, batch.logits[t], batch.bias);
    ++tally.vectors;
    tally.tied += has_ties(batch.logits[t]);
    if (wanted.ambiguous) {
      ++tally.ambiguous;
      continue;
    }
    std::vector<int> chosen;
    bool weights_agree = true;
    for (int64_t e = 0; e < batch.experts; ++e) {
      const double weight = got[batch.at(t, e)], right = wanted.weights[e];
      if (weight != 0) chosen.push_back(static_cast<int>(e));
      weights_agree &= std::abs(weight - right) <= 1e-6 * std::abs(right);
    }
    tally.wrong_sets += chosen != wanted.chosen;
    tally.wrong_weights += !weights_agree;
  }
}

std::vector<float> routed_by(const Shard& shard, const Batch& batch, RoutingForm form) {
  PassContext context{{.routing = form}, {}};
  auto lowered = lower_router(shard, context);
  EXPECT_TRUE(lowered.has_value());
  EXPECT_TRUE(verify(*lowered).empty());
  return outputs_of(*lowered, batch.inputs())[0].data;
}

// Calls check(batch, shard) for every size and router, with and without choice bias.
template <class F>
void for_each_batch(F&& check) {
  std::mt19937 random(20240229);
  for (const Size& size : kSizes)
    for (const Router& router : routers_of(size))
      for (bool biased : {false, true}) {
        if (biased && router.score == Score::sparsemixer) continue;
        const Batch batch = random_batch(random, size, router, biased);
        check(batch, batch.shard());
      }
}

class RoutingOracle : public testing::TestWithParam<RoutingForm> {};

TEST_P(RoutingOracle, ChoosesTheSameExpertsAndWeights) {
  Tally tally;
  for_each_batch([&](const Batch& batch, const Shard& shard) {
    const Tally before = tally;
    compare(batch, routed_by(shard, batch, GetParam()), tally);
    const bool good =
        before.wrong_sets == tally.wrong_sets && before.wrong_weights == tally.wrong_weights;
    EXPECT_TRUE(good) << print(shard);
  });
  EXPECT_GE(tally.vectors, 20000);
  EXPECT_GE(tally.tied, tally.vectors * 4 / 5);
  EXPECT_LE(tally.ambiguous, tally.vectors / 100);
  EXPECT_EQ(tally.wrong_sets, 0);
  EXPECT_EQ(tally.wrong_weights, 0);
  RecordProperty("vectors", tally.vectors);
  RecordProperty("ambiguous", tally.ambiguous);
}

INSTANTIATE_TEST_SUITE_P(ExactForms, RoutingOracle,
                         testing::Values(RoutingForm::rank, RoutingForm::iterate, RoutingForm::topk,
                                         RoutingForm::host),
                         [](const testing::TestParamInfo<RoutingForm>& info) {
                           return std::string(enum_name(info.param));
                         });

TEST(RoutingOracleInexact, DiffersUnlessAllExpertsAreChosen) {
  Tally tally;
  int all_chosen = 0;
  for_each_batch([&](const Batch& batch, const Shard& shard) {
    if (batch.router.top_k == batch.experts)
      all_chosen += static_cast<int>(batch.tokens);
    else
      compare(batch, routed_by(shard, batch, RoutingForm::full_softmax), tally);
  });
  EXPECT_GE(tally.vectors + all_chosen, 20000);
  EXPECT_EQ(tally.wrong_sets, tally.vectors - tally.ambiguous);
  EXPECT_EQ(tally.wrong_weights, tally.vectors - tally.ambiguous);
}

}  // namespace
}  // namespace moec
