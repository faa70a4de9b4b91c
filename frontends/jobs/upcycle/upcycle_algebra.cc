#include "frontends/jobs/upcycle/upcycle_algebra.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace moec {
namespace {

bool picks_all(const UpcycleTerms& terms) { return terms.top_k == terms.experts; }

// True if the picked weights sum to one for every token.
bool sums_to_one(const UpcycleTerms& terms) {
  // A softmax over all experts sums to one only if a token picks all of them.
  return terms.normalised || (picks_all(terms) && is_softmax(terms.score));
}

bool is_power_of_two(double value) {
  int exponent = 0;
  // frexp() returns a mantissa in [0.5, 1), which is 0.5 only for powers of two.
  return std::frexp(value, &exponent) == 0.5;
}

void add_of_experts(const UpcycleTerms& terms, ExactClass& exact) {
  const ExpertStart& start = terms.start;
  if (terms.redrawn > 0)
    exact.add(Exactness::inexact,
              fmt::format("{} units of each expert are redrawn", terms.redrawn));
  if (start.noise > 0) exact.add(Exactness::inexact, "noise was added to the experts");
  if (terms.other_model)
    exact.add(Exactness::inexact,
              fmt::format("the experts come from {} other models", terms.models));
  // The picked parts are only some summands of the dense result.
  if (start.init == ExpertInit::partition && !picks_all(terms))
    exact.add(Exactness::inexact,
              fmt::format("a token computes {} of the {} parts of the dense hidden units",
                          terms.top_k, terms.experts));
  if (terms.gated_shared)
    exact.add(Exactness::inexact, "a sigmoid, which is never exactly 1, scales the shared expert");
}

void add_of_router(const UpcycleTerms& terms, ExactClass& exact) {
  const RouterInit router = terms.start.router;
  // Unequal rows can pick a part of a group.
  if (router == RouterInit::independent && terms.granularity > 1)
    exact.add(Exactness::inexact, "router rows differ within a group of experts");
  if (!sums_to_one(terms))
    // With zero rows, all weights are equal, so their sum is known.
    router == RouterInit::zero
        ? exact.add(Exactness::uniform_router, "the picked weights are not normalised")
        : exact.add(Exactness::inexact,
                    "the picked weights are not normalised, and their sum depends on the token");
  if (router == RouterInit::zero && terms.granularity > 1 && !picks_all(terms))
    // torch.topk guarantees no order among equal scores.
    exact.add(Exactness::uniform_router,
              "all scores are equal, and whole groups are picked only if ties go to the lowest "
              "index");
}

// Adds the effects of the factors on activations and rounding.
void add_of_scale(const UpcycleTerms& terms, ExactClass& exact) {
  const PartFactors factors = part_factors(terms);
  if (Gating{terms.activation}.has_gate()) {
    // silu(c z) is not c silu(z).
    if (factors.gate != 1)
      exact.add(Exactness::inexact,
                fmt::format("the gate is multiplied by {:.4g}, but its activation is not linear",
                            factors.gate));
  } else if (terms.start.scale == ScaleRule::sqrt_up_down && factors.up != 1) {
    // relu2(c z) = c^2 relu2(z), so the product with the root on down is s^1.5 instead of s.
    exact.add(Exactness::inexact, "the activation squares the factor of up");
  }
  const double each[] = {factors.gate, factors.up, factors.down};
  // Multiplying by a power of two only changes the exponent.
  if (terms.narrow && !std::all_of(std::begin(each), std::end(each), is_power_of_two))
    exact.add(Exactness::rounded,
              fmt::format("weights times {:.4g} are rounded to 16 bits", factors.down));
  if (terms.narrowed) exact.add(Exactness::rounded, "weights are rounded to 16 bits");
}

}  // namespace

void ExactClass::add(Exactness other, std::string reason) {
  // The enumerators are ordered from exact to inexact, so the worst class wins.
  kind = std::max(kind, other);
  reasons.push_back(std::move(reason));
}

std::string to_string(const ExactClass& exact) {
  std::string text(enum_name(exact.kind));
  if (!exact.reasons.empty()) text += fmt::format(": {}", fmt::join(exact.reasons, "; "));
  return text;
}

double group_scale(const UpcycleTerms& terms) {
  const auto group = static_cast<double>(terms.granularity);
  if (sums_to_one(terms)) return group;
  const auto experts = static_cast<double>(terms.experts), picks = static_cast<double>(terms.top_k);
  switch (terms.score) {
    case Score::sigmoid:
    case Score::sigmoid_selected:
      return 2 * group / picks;  // each sigmoid of a zero row is 1/2
    case Score::softmax:
    case Score::softmax_selected:
    case Score::sparsemixer:
      break;
  }
  return experts * group / picks;  // each share of a uniform softmax is 1 / experts
}

PartFactors part_factors(const UpcycleTerms& terms) {
  const double scale = group_scale(terms), root = std::sqrt(scale), cube_root = std::cbrt(scale);
  switch (terms.start.scale) {
    case ScaleRule::down:
      return {1, 1, scale};
    case ScaleRule::sqrt_up_down:
      return {1, root, root};
    case ScaleRule::megatron:
      break;
  }
  // Without a gate, c^2 of the activation and c of down give c^3, so c is the cube root.
  return {Gating{terms.activation}.has_gate() ? cube_root : 1, cube_root, cube_root};
}

ExactClass exactness(const UpcycleTerms& terms) {
  ExactClass exact;
  add_of_experts(terms, exact);
  add_of_router(terms, exact);
  add_of_scale(terms, exact);
  return exact;
}

double DuplicationTerms::down_factor() const {
  const bool shares = routing.renorm != Renorm::none || is_softmax(routing.score);
  // Weights that share a sum stay shares of it; independent ones add up over the copies.
  return shares || !picks_all_copies() ? 1 : 1 / static_cast<double>(multiply);
}

double DuplicationTerms::choice_factor() const {
  // Copies divide each softmax score by `multiply`, so the added bias must shrink, too.
  const bool shares = is_softmax(routing.score) && scores_all_logits(routing.score);
  return shares ? 1 / static_cast<double>(multiply) : 1;
}

ExactClass exactness(const DuplicationTerms& terms) {
  ExactClass exact;
  // One exact copy is the model itself.
  if (terms.multiply == 1 && terms.noise == 0 && terms.picks_all_copies()) return exact;
  if (!terms.picks_all_copies())
    exact.add(Exactness::inexact,
              fmt::format("a token picks {} experts, not all {} copies of each of its {}",
                          terms.new_top_k, terms.multiply, terms.routing.top_k));
  if (terms.noise > 0)
    exact.add(Exactness::inexact, "noise was added to the router rows of copies");
  // Copies of the best expert occupy both places of the sum.
  if (terms.routing.groups_kept < terms.routing.groups &&
      experts_of_group_score(terms.routing.group_score) > 1)
    exact.add(Exactness::inexact,
              "groups are ranked by the sum of their two best scores, which copies change");
  if (terms.narrow && !is_power_of_two(terms.down_factor()))
    exact.add(Exactness::rounded,
              fmt::format("weights times {:.4g} are rounded to 16 bits", terms.down_factor()));
  return exact;
}

}  // namespace moec
