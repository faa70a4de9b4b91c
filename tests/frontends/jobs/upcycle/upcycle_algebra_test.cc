// The factors of experts and the exactness class for each row of the upcycling algebra.
#include "frontends/jobs/upcycle/upcycle_algebra.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moec {
namespace {

UpcycleTerms terms_of(int64_t experts, int64_t top_k, int64_t granularity) {
  UpcycleTerms terms{experts, top_k, granularity};
  terms.start.init = granularity > 1 ? ExpertInit::virtual_group : ExpertInit::copy;
  return terms;
}

// ---- Factors -----------------------------------------------------------------------------------

TEST(UpcycleAlgebra, ScalesNormalizedWeightsByGroupSize) {
  for (const int64_t group : {1, 2, 4})
    for (const int64_t picks : {1, 2, 3})
      EXPECT_EQ(group_scale(terms_of(4 * group, picks * group, group)), static_cast<double>(group));
}

TEST(UpcycleAlgebra, ScalesSoftmaxSharesByTheirFraction) {
  UpcycleTerms terms = terms_of(8, 4, 2);
  terms.normalised = false;
  EXPECT_EQ(group_scale(terms), 8 * 2 / 4.0);  // E_r · G² / T with E_r = 4
  terms.top_k = 8;
  EXPECT_EQ(group_scale(terms), 2);
}

TEST(UpcycleAlgebra, TreatsZeroLogitSigmoidsAsHalf) {
  UpcycleTerms terms = terms_of(8, 4, 2);
  terms.normalised = false;
  terms.score = Score::sigmoid;
  EXPECT_EQ(group_scale(terms), 1);  // two groups of 1/2 each
  terms.top_k = 2;
  EXPECT_EQ(group_scale(terms), 2);
}

TEST(UpcycleAlgebra, PlacesFactorsPerScaleRule) {
  UpcycleTerms terms = terms_of(8, 4, 4);
  EXPECT_EQ(part_factors(terms), (PartFactors{1, 1, 4}));
  terms.start.scale = ScaleRule::sqrt_up_down;
  EXPECT_EQ(part_factors(terms), (PartFactors{1, 2, 2}));
  terms.start.scale = ScaleRule::megatron;
  const double root = std::cbrt(4.0);
  EXPECT_EQ(part_factors(terms), (PartFactors{root, root, root}));
  terms.activation = Activation::relu2;
  EXPECT_EQ(part_factors(terms), (PartFactors{1, root, root}));
}

// ---- Classes -----------------------------------------------------------------------------------

Exactness kind_of(const UpcycleTerms& terms) { return exactness(terms).kind; }

TEST(UpcycleAlgebra, IsExactForNormalizedWholeGroups) {
  for (const auto& [experts, picks, group] :
       {std::tuple{8, 1, 1}, {8, 2, 1}, {6, 2, 1}, {8, 2, 2}, {8, 4, 2}, {16, 8, 4}})
    for (const ScaleRule rule : {ScaleRule::down, ScaleRule::sqrt_up_down}) {
      UpcycleTerms terms = terms_of(experts, picks, group);
      terms.start.scale = rule;
      EXPECT_EQ(to_string(exactness(terms)), "exact") << experts << " " << picks << " " << group;
    }
}

TEST(UpcycleAlgebra, LimitsCubeRootsToSquaredRelu) {
  UpcycleTerms terms = terms_of(8, 2, 2);
  terms.start.scale = ScaleRule::megatron;
  EXPECT_EQ(kind_of(terms), Exactness::inexact);
  terms.activation = Activation::relu2;
  EXPECT_EQ(kind_of(terms), Exactness::exact);
  terms.start.scale = ScaleRule::sqrt_up_down;
  EXPECT_EQ(kind_of(terms), Exactness::inexact);
  terms.granularity = 1;  // all factors are 1
  EXPECT_EQ(kind_of(terms), Exactness::exact);
}

TEST(UpcycleAlgebra, IsInexactForDifferingRouterRows) {
  UpcycleTerms terms = terms_of(8, 2, 2);
  terms.start.router = RouterInit::independent;
  EXPECT_EQ(kind_of(terms), Exactness::inexact);
  UpcycleTerms copies = terms_of(8, 2, 1);
  copies.start.router = RouterInit::independent;
  EXPECT_EQ(kind_of(copies), Exactness::exact);
}

TEST(UpcycleAlgebra, IsExactForUniformZeroRouters) {
  UpcycleTerms terms = terms_of(8, 2, 2);
  terms.start.router = RouterInit::zero;
  EXPECT_EQ(kind_of(terms), Exactness::uniform_router);
  terms.top_k = 8;
  EXPECT_EQ(kind_of(terms), Exactness::exact);
  EXPECT_EQ(kind_of(terms_of(8, 2, 1)), Exactness::exact);
}

TEST(UpcycleAlgebra, RequiresUniformRoutersWithoutNormalization) {
  UpcycleTerms terms = terms_of(8, 2, 1);
  terms.normalised = false;
  EXPECT_EQ(kind_of(terms), Exactness::inexact);
  terms.start.router = RouterInit::zero;
  EXPECT_EQ(kind_of(terms), Exactness::uniform_router);
  terms.top_k = 8;  // softmax over all experts sums to one
  EXPECT_EQ(kind_of(terms), Exactness::exact);
  terms.score = Score::sigmoid;
  EXPECT_EQ(kind_of(terms), Exactness::uniform_router);
}

TEST(UpcycleAlgebra, IsInexactForChangedExperts) {
  UpcycleTerms noisy = terms_of(8, 2, 1), redrawn = noisy, merged = noisy, gated = noisy;
  noisy.start.noise = 1e-3;
  redrawn.redrawn = 1;
  merged.models = 2;
  merged.other_model = true;
  gated.gated_shared = true;
  for (const UpcycleTerms& terms : {noisy, redrawn, merged, gated})
    EXPECT_EQ(kind_of(terms), Exactness::inexact);
}

TEST(UpcycleAlgebra, IsExactWithAllPartsComputed) {
  UpcycleTerms terms{4, 4, 4};
  terms.start.init = ExpertInit::partition;
  EXPECT_EQ(kind_of(terms), Exactness::exact);
  terms.top_k = 2;
  EXPECT_EQ(kind_of(terms), Exactness::inexact);
}

TEST(UpcycleAlgebra, RoundsNarrowWeightsByOddFactors) {
  UpcycleTerms terms = terms_of(6, 3, 3);
  EXPECT_EQ(kind_of(terms), Exactness::exact);
  terms.narrow = true;
  EXPECT_EQ(kind_of(terms), Exactness::rounded);
  UpcycleTerms power = terms_of(8, 4, 4);
  power.narrow = true;
  EXPECT_EQ(kind_of(power), Exactness::exact);
  power.narrowed = true;
  EXPECT_EQ(kind_of(power), Exactness::rounded);
}

TEST(UpcycleAlgebra, ReportsTheWorstReason) {
  UpcycleTerms terms = terms_of(6, 3, 3);
  terms.narrow = true;
  terms.start.noise = 1;
  const ExactClass exact = exactness(terms);
  EXPECT_EQ(exact.kind, Exactness::inexact);
  EXPECT_EQ(exact.reasons.size(), 2u);
  EXPECT_EQ(to_string(exact).find("inexact: noise"), 0u);
}

// ---- Copies of experts -------------------------------------------------------------------------

DuplicationTerms copies_of(Score score, Renorm renorm) {
  DuplicationTerms terms{2, 4, {}};
  terms.routing.score = score;
  terms.routing.renorm = renorm;
  terms.routing.top_k = 2;
  return terms;
}

TEST(UpcycleAlgebra, IsExactWithAllCopiesSelected) {
  for (const Score score : {Score::softmax, Score::sigmoid, Score::softmax_selected})
    for (const Renorm renorm : {Renorm::none, Renorm::sum})
      EXPECT_EQ(exactness(copies_of(score, renorm)).kind, Exactness::exact);
}

TEST(UpcycleAlgebra, DividesCopiesOfUnnormalizedWeights) {
  EXPECT_EQ(copies_of(Score::sigmoid, Renorm::none).down_factor(), 0.5);
  EXPECT_EQ(copies_of(Score::sigmoid, Renorm::sum).down_factor(), 1);
  EXPECT_EQ(copies_of(Score::softmax, Renorm::none).down_factor(), 1);
  EXPECT_EQ(copies_of(Score::softmax, Renorm::none).choice_factor(), 0.5);
  EXPECT_EQ(copies_of(Score::sigmoid, Renorm::none).choice_factor(), 1);
}

TEST(UpcycleAlgebra, IsInexactForChangedCopies) {
  DuplicationTerms fewer = copies_of(Score::softmax, Renorm::sum), noisy = fewer, groups = fewer;
  fewer.new_top_k = 2;
  noisy.noise = 0.1;
  groups.routing.groups = 4;
  groups.routing.groups_kept = 2;
  groups.routing.group_score = GroupScore::top2_sum;
  for (const DuplicationTerms& terms : {fewer, noisy, groups})
    EXPECT_EQ(exactness(terms).kind, Exactness::inexact);
  groups.routing.group_score = GroupScore::max;  // copies have the maximum of their expert's group
  EXPECT_EQ(exactness(groups).kind, Exactness::exact);
}

}  // namespace
}  // namespace moec
