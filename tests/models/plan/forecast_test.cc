// Prices of counted work, and the memory of a forecast, with hand-computed values.
#include "models/plan/forecast.h"

#include <gmock/gmock.h>

#include "tests/made_up_profile.h"

namespace moec {
namespace {

constexpr double kTolerance = 1e-15;

TEST(Forecast, PricesProductsByForm) {
  ShardWork work;
  work.products = {{.inner = 10, .weights = 1000, .tokens = 1},
                   {.inner = 10, .weights = 4000, .tokens = 2, .times = 0.5},
                   {.encoding = AffineEncoding{8, {1, 10}}, .inner = 10, .weights = 1000}};
  const auto seconds = price(work, made_up_profile());
  ASSERT_TRUE(seconds);
  EXPECT_NEAR(seconds->products, 1e-6 + 0.5 * 8e-6 + 0.5e-6, kTolerance);
  EXPECT_NEAR(seconds->ops, 1e-5, kTolerance) << "one run";
}

TEST(Forecast, PricesTheOtherWork) {
  ShardWork work;
  work.activations = {{.weights = 500, .tokens = 1, .times = 2}};
  work.elements = {1000, 2000, 3000, 4000, 5000};
  work.ops = 20;
  work.idle_ops = 100;
  DeviceProfile profile = made_up_profile();
  profile.element_seconds = {1e-9, 2e-9, 3e-9, 4e-9, 5e-9};
  const auto seconds = price(work, profile);
  ASSERT_TRUE(seconds);
  EXPECT_NEAR(seconds->attention, 2 * 500 * 2e-9, kTolerance);
  EXPECT_NEAR(seconds->elements, (1 + 4 + 9 + 16 + 25) * 1e-6, kTolerance);
  EXPECT_NEAR(seconds->ops, 20e-6 + 1e-6 + 1e-5, kTolerance);
  EXPECT_NEAR(seconds->total(), 2e-6 + 55e-6 + 31e-6, kTolerance);
  EXPECT_NEAR(seconds->scaled(0.5).total(), 44e-6, kTolerance);
}

// A product cannot be faster than the reads of its bytes.
TEST(Forecast, LimitsProductsByMemory) {
  ShardWork work;
  work.products = {{.inner = 10, .weights = 1000, .bytes = 4000}};
  DeviceProfile profile = made_up_profile();
  profile.memory_rate = 1e9;
  const auto seconds = price(work, profile);
  ASSERT_TRUE(seconds);
  EXPECT_NEAR(seconds->products, 4e-6, kTolerance);
}

// One thread reads the keys and values of a head.
TEST(Forecast, LimitsAttentionByMemory) {
  ShardWork work;
  work.activations = {{.weights = 500, .tokens = 1}};
  DeviceProfile profile = made_up_profile();
  profile.memory_rate = 1e9;
  const auto seconds = price(work, profile);
  ASSERT_TRUE(seconds);
  EXPECT_NEAR(seconds->attention, 500 * 4 / 0.5e9, kTolerance);
}

TEST(Forecast, RejectsUnmeasuredForms) {
  ShardWork work;
  work.products = {{.encoding = PaletteEncoding{3, {16, 10}}, .inner = 10, .weights = 1000}};
  const auto seconds = price(work, made_up_profile());
  ASSERT_FALSE(seconds);
  EXPECT_EQ(seconds.error().front().code, "forecast.form");
  EXPECT_THAT(seconds.error().front().cause, testing::HasSubstr("palette(3; 16, 10)"));
}

TEST(Forecast, CountsDistinctExperts) {
  EXPECT_DOUBLE_EQ(distinct_experts(1, 2, 8), 2);
  EXPECT_DOUBLE_EQ(distinct_experts(2, 2, 8), 8 * (1 - 0.75 * 0.75));
  EXPECT_DOUBLE_EQ(distinct_experts(1, 8, 8), 8);
  EXPECT_EQ(distinct_experts(1, 0, 0), 0);
}

TEST(Forecast, ReturnsTheChanceOfOne) {
  EXPECT_DOUBLE_EQ(chance_of_one(0.25, 1), 0.25);
  EXPECT_DOUBLE_EQ(chance_of_one(0.25, 2), 1 - 0.75 * 0.75);
  EXPECT_DOUBLE_EQ(chance_of_one(1, 3), 1);
}

TEST(Forecast, WidensCachesAndActivations) {
  Plan plan;
  plan.build.dtype = DType::f16;
  plan.build.tokens = {1, 4};
  plan.model.vocab = 100;
  plan.model.hidden = 10;
  PlanReport report;
  report.trunk_bytes = 1000;
  report.embedding_bytes = 200;
  report.rope_bytes = 30;
  report.cache_bytes = 500;
  report.kinds = {{.peak_activation_bytes = 40}, {.peak_activation_bytes = 70}};
  ForecastMemory memory = memory_without_experts(plan, report, {2, 100'000});
  EXPECT_EQ(memory.cache_bytes, 1000);
  EXPECT_EQ(memory_without_experts(plan, report, {2, 0, 100, DType::f16}).cache_bytes,
            400 + 2 * 100);
  // Trunk and tables, activations, two ops, three copies of logits and two of the hidden state.
  EXPECT_EQ(memory.other_bytes, 1230 + 140 + 2 * 1024 + 4 * 4 * (300 + 20));
  memory.experts_bytes = 100'000 - memory.cache_bytes - memory.other_bytes;
  EXPECT_TRUE(memory.fits());
  EXPECT_EQ(memory.free(), 0);
  ++memory.experts_bytes;
  EXPECT_FALSE(memory.fits());
}

TEST(Forecast, AddsReadsToTheRate) {
  PhaseForecast phase;
  phase.work.products = 0.075;
  phase.read_seconds = 0.025;
  EXPECT_DOUBLE_EQ(phase.tokens_per_second(), 10);
  EXPECT_EQ(PhaseForecast().tokens_per_second(), 0);
}

}  // namespace
}  // namespace moec
