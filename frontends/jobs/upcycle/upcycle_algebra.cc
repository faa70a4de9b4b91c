#include "frontends/jobs/upcycle/upcycle_algebra.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace moec {
namespace {

bool is_gated(Activation activation) { return activation != Activation::relu2; }

bool picks_all(const UpcycleTerms& terms) { return terms.top_k == terms.experts; }

// Whether the picked weights sum to one for every token.
bool sums_to_one(const UpcycleTerms& terms) {
  return terms.normalised || (picks_all(terms) && !is_sigmoid(terms.score));
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

void add_of_experts(const UpcycleTerms& terms, ExactClass& exact) {
  const ExpertStart& start = terms.start;
  if (terms.redrawn > 0)
    exact.add(Exactness::inexact,
              fmt::format("{} units of each expert are drawn anew", terms.redrawn));
  if (start.noise > 0) exact.add(Exactness::inexact, "noise was added to the experts");
  if (terms.other_model)
    exact.add(Exactness::inexact,
              fmt::format("the experts come from {} other models", terms.models));
  if (start.init == ExpertInit::partition && !picks_all(terms))
    exact.add(Exactness::inexact,
              fmt::format("a token computes {} of the {} parts of the dense hidden units",
                          terms.top_k, terms.experts));
  if (terms.gated_shared)
    exact.add(Exactness::inexact,
              "the shared expert is behind a sigmoid, which is never exactly 1");
}

void add_of_router(const UpcycleTerms& terms, ExactClass& exact) {
  const RouterInit router = terms.start.router;
  if (router == RouterInit::independent && terms.granularity > 1)
    exact.add(Exactness::inexact, "router rows differ within a group of experts");
  if (!sums_to_one(terms))
    router == RouterInit::zero
        ? exact.add(Exactness::uniform_router, "the picked weights are not normalised")
        : exact.add(Exactness::inexact,
                    "the picked weights are not normalised, and their sum depends on the token");
  if (router == RouterInit::zero && terms.granularity > 1 && !picks_all(terms))
    exact.add(Exactness::uniform_router,
              "all scores are equal, and whole groups are picked only where the lowest number wins "
              "ties");
}

// What the factor does to the activation.
void add_of_scale(const UpcycleTerms& terms, ExactClass& exact) {
  const PartFactors factors = part_factors(terms);
  if (is_gated(terms.activation)) {
    if (factors.gate != 1)
      exact.add(Exactness::inexact,
                fmt::format("the gate is multiplied by {:.4g}, which its activation is not linear "
                            "in",
                            factors.gate));
  } else if (terms.start.scale == ScaleRule::sqrt_up_down && factors.up != 1) {
    exact.add(Exactness::inexact, "the activation squares the factor of up");
  }
  const double each[] = {factors.gate, factors.up, factors.down};
  if (terms.narrow && !std::all_of(std::begin(each), std::end(each), is_power_of_two))
    exact.add(Exactness::rounded,
              fmt::format("weights times {:.4g} are rounded to 16 bits", factors.down));
  if (terms.narrowed) exact.add(Exactness::rounded, "weights are rounded to 16 bits");
}

}  // namespace

void ExactClass::add(Exactness other, std::string reason) {
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
  return is_sigmoid(terms.score) ? 2 * group / picks : experts * group / picks;
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
  return {is_gated(terms.activation) ? cube_root : 1, cube_root, cube_root};
}

ExactClass exactness(const UpcycleTerms& terms) {
  ExactClass exact;
  add_of_experts(terms, exact);
  add_of_router(terms, exact);
  add_of_scale(terms, exact);
  return exact;
}

double DuplicationTerms::down_factor() const {
  const bool shares = routing.renorm != Renorm::none || !is_sigmoid(routing.score);
  return shares || !picks_all_copies() ? 1 : 1 / static_cast<double>(multiply);
}

double DuplicationTerms::choice_factor() const {
  return scores_all_logits(routing.score) && !is_sigmoid(routing.score)
             ? 1 / static_cast<double>(multiply)
             : 1;
}

ExactClass exactness(const DuplicationTerms& terms) {
  ExactClass exact;
  if (terms.multiply == 1 && terms.noise == 0 && terms.picks_all_copies()) return exact;
  if (!terms.picks_all_copies())
    exact.add(Exactness::inexact,
              fmt::format("a token picks {} experts, not all {} copies of the {} that it picked",
                          terms.new_top_k, terms.multiply, terms.routing.top_k));
  if (terms.noise > 0)
    exact.add(Exactness::inexact, "noise was added to the router rows of copies");
  if (terms.routing.groups_kept < terms.routing.groups &&
      terms.routing.group_score == GroupScore::top2_sum)
    exact.add(Exactness::inexact,
              "groups of experts are ranked by the sum of their best scores, which copies change");
  if (terms.narrow && !is_power_of_two(terms.down_factor()))
    exact.add(Exactness::rounded,
              fmt::format("weights times {:.4g} are rounded to 16 bits", terms.down_factor()));
  return exact;
}

}  // namespace moec
