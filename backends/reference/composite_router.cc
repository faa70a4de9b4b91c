// The router by its definition, one token at a time: scores, candidate experts, chosen experts, and
// their weights.
#include <algorithm>
#include <cmath>

#include "backends/reference/axis.h"
#include "backends/reference/eval.h"
#include "backends/reference/tokens.h"
#include "ir/base/at.h"
#include "ir/graph/composite_operands.h"
#include "ir/graph/elementwise.h"

namespace moec {
namespace {

using Floats = std::vector<float>;

Line line_of(std::span<const float> values) { return {values.data(), std::ssize(values)}; }

// Replaces each logit with its sigmoid, or all logits with their softmax.
void score(Score kind, Floats& logits) {
  switch (kind) {
    case Score::softmax:
    case Score::softmax_selected:
    case Score::sparsemixer:
      return softmax(line_of(logits), logits.data());
    case Score::sigmoid:
    case Score::sigmoid_selected:
      for (float& value : logits) value = apply(UnaryFn::sigmoid, value);
  }
}

float group_score(GroupScore kind, std::span<const float> choices) {
  const std::vector<int64_t> best = largest(line_of(choices), experts_of_group_score(kind));
  float sum = 0;
  for (int64_t e : best) sum += at(choices, e);
  return sum;
}

// Returns the experts of the selected groups, ascending.
std::vector<int64_t> candidates(const Router& op, const Floats& choices) {
  const int64_t size = std::ssize(choices) / op.groups;
  Floats scores;
  for (int64_t g = 0; g < op.groups; ++g)
    scores.push_back(group_score(
        op.group_score,
        std::span(choices).subspan(static_cast<size_t>(g * size), static_cast<size_t>(size))));
  std::vector<int64_t> kept = largest(line_of(scores), op.groups_kept);
  // Ascending groups give ascending experts, so that ties between experts go to the lowest index.
  std::sort(kept.begin(), kept.end());
  std::vector<int64_t> experts;
  for (int64_t g : kept)
    for (int64_t e = g * size; e < (g + 1) * size; ++e) experts.push_back(e);
  return experts;
}

std::vector<int64_t> chosen_experts(const Router& op, const Floats& choices) {
  std::vector<int64_t> experts(choices.size());
  for (size_t e = 0; e < experts.size(); ++e) experts[e] = static_cast<int64_t>(e);
  if (op.groups > 1) experts = candidates(op, choices);
  Floats open;
  for (int64_t e : experts) open.push_back(at(choices, e));
  std::vector<int64_t> chosen;
  for (int64_t i : largest(line_of(open), op.top_k)) chosen.push_back(at(experts, i));
  // Ascending experts fix the order of summation in divisor() and softmax().
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// The number by which the weights are divided (OPS.md, router, step 3).
double divisor(const Router& op, const Floats& weights) {
  const double sum = sum_of(line_of(weights));
  switch (op.renorm) {
    case Renorm::none:
      return 1;
    case Renorm::sum:
      return sum;
    case Renorm::sum_plus_eps:
      return sum + op.eps;
    case Renorm::max_eps:
      return std::max(sum, op.eps);
  }
  return 1;
}

// Weight of logits[pick], the largest open logit, in the softmax over the open logits close to it.
double share(std::span<const float> logits, const std::vector<bool>& open, size_t pick,
             double eps) {
  const double top = logits[pick];
  double near = 0;
  for (size_t j = 0; j < logits.size(); ++j)
    if (const double z = logits[j]; open[j] && top - z <= 2 * eps * std::max(std::fabs(z), top))
      near += std::exp(z - top);
  return 1 / near;
}

// Router `sparsemixer`: writes the two weights to `logits`, all others become 0. The second pick
// sees the logits without the first one.
void mix(const Router& op, std::span<float> logits) {
  std::vector<bool> open(logits.size(), true);
  Floats weights(logits.size(), 0.0f);
  for (const int64_t pick : largest(line_of(logits), op.top_k)) {
    const auto at = static_cast<size_t>(pick);
    weights[at] = static_cast<float>(share(logits, open, at, op.eps) * op.scale);
    open[at] = false;
  }
  std::copy(weights.begin(), weights.end(), logits.begin());
}

// Replaces the logits of one token with its routing weights. Biases affect only the choice, so the
// weights are computed from `scores`. The biases are added one after the other, because the second
// one is the low half of the first.
void route(const Router& op, std::span<float> logits, std::initializer_list<const Tensor*> biases) {
  if (picks_two(op.score)) return mix(op, logits);
  Floats scores(logits.begin(), logits.end());
  if (scores_all_logits(op.score)) score(op.score, scores);
  Floats choices = scores;
  for (const Tensor* bias : biases)
    for (size_t e = 0; bias != nullptr && e < choices.size(); ++e) choices[e] += bias->data[e];
  const std::vector<int64_t> chosen = chosen_experts(op, choices);
  Floats weights;
  for (int64_t e : chosen) weights.push_back(at(scores, e));
  if (!scores_all_logits(op.score)) score(op.score, weights);
  const double by = divisor(op, weights);
  std::fill(logits.begin(), logits.end(), 0.0f);
  for (size_t i = 0; i < chosen.size(); ++i)
    at(logits, chosen[i]) = static_cast<float>(weights[i] / by * op.scale);
}

}  // namespace

Tensor eval(const Router& op, const Call& call) {
  const auto [logits, high, low] = router_operands<const Tensor*>(call.operands);
  TokenRows rows = rows_of(*logits);
  for (int64_t t = 0; t < rows.tokens; ++t) route(op, rows.row(t), {high, low});
  return tensor_of(rows, call.type());
}

}  // namespace moec
