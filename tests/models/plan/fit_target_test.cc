#include "models/plan/fit_target.h"

#include <gmock/gmock.h>

#include <map>

namespace moec {
namespace {

Target target_of(int64_t channels, int64_t extent) {
  Target target;
  target.name = "small";
  target.limits = {.channels = channels, .extent = extent};
  return target;
}

TEST(FitTarget, CutsTheVocabularyToTargetChannels) {
  ModelConfig model;
  model.vocab = 151936;  // vocabulary of Qwen3
  for (const auto& [limit, slices] :
       std::map<int64_t, int64_t>{{0, 1}, {65536, 3}, {75968, 2}, {151935, 2}, {151936, 1}}) {
    BuildOptions build{.context = 8, .head_slices = 0};
    ASSERT_TRUE(fit_to_target(model, target_of(limit, 0), build).has_value());
    EXPECT_EQ(build.head_slices, slices) << limit;
  }
  BuildOptions asked{.context = 8, .head_slices = 7};
  ASSERT_TRUE(fit_to_target(model, target_of(65536, 0), asked).has_value());
  EXPECT_EQ(asked.head_slices, 7);
}

TEST(FitTarget, UsesTheFewestEqualPages) {
  struct Case {
    int64_t context, limit, pages;
  };
  for (const Case& c :
       {Case{16384, 16384, 1}, Case{16385, 16384, 5}, Case{32768, 16384, 2}, Case{40960, 16384, 4},
        Case{131072, 16384, 8}, Case{131072, 65536, 2}, Case{131072, 0, 1}}) {
    BuildOptions build{.context = c.context, .cache = CacheForm::blend};
    ASSERT_TRUE(fit_to_target({}, target_of(0, c.limit), build).has_value()) << c.context;
    EXPECT_EQ(build.cache_pages, c.pages) << c.context;
    BuildOptions append{.context = c.context, .cache = CacheForm::append};
    ASSERT_TRUE(fit_to_target({}, target_of(0, c.limit), append).has_value());
    EXPECT_EQ(append.cache_pages, 1);
  }
}

TEST(FitTarget, SuggestsADivisibleContext) {
  BuildOptions build{.context = 16411, .cache = CacheForm::blend};  // a prime
  const Status status = fit_to_target({}, target_of(0, 16384), build);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error()[0].code, "plan.context");
  EXPECT_THAT(status.error()[0].next_step, testing::HasSubstr("--context 16412"));
  build.context = 16412;
  EXPECT_TRUE(fit_to_target({}, target_of(0, 16384), build).has_value());
  EXPECT_EQ(build.cache_pages, 2);
}

}  // namespace
}  // namespace moec
