#include "ir/base/diagnostics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "ir/base/invariant.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

TEST(Diagnostics, RendersPlaceCauseAndNextStep) {
  EXPECT_EQ(render(Diagnostic{Severity::error, "a.b", "it broke", "", {}}), "error[a.b]: it broke");
  EXPECT_EQ(
      render(Diagnostic{
          Severity::warning, "a.b", "odd", "look", {.file = "m/x.ir", .line = 3, .column = 7}}),
      "warning[a.b] m/x.ir:3:7: odd\n  next: look");
  EXPECT_EQ(render(Diagnostic{
                Severity::note,
                "a.b",
                "so",
                "",
                {.shard = "L03.moe", .op = "gate", .tensor = "w", .file = "f", .offset = 64}}),
            "note[a.b] f at byte 64, shard L03.moe, op gate, tensor w: so");
  EXPECT_EQ(render(Diagnostic{Severity::error, "a.b", "c", "", {.tensor = "w"}}),
            "error[a.b] tensor w: c");
  EXPECT_EQ(
      render(Diagnostics{{Severity::error, "a", "x", "", {}}, {Severity::note, "b", "y", "", {}}}),
      "error[a]: x\nnote[b]: y");
  EXPECT_EQ(render(Diagnostics{}), "");
}

TEST(Diagnostics, CountsOnlyErrorsAsErrors) {
  EXPECT_FALSE(has_error({}));
  EXPECT_FALSE(
      has_error({{Severity::warning, "a", "x", "", {}}, {Severity::note, "", "", "", {}}}));
  EXPECT_TRUE(has_error({{Severity::note, "a", "x", "", {}}, {Severity::error, "", "", "", {}}}));
}

Result<int> half(int x) {
  if (x % 2) return fail("half.odd", "odd", "give an even number", {.op = "x"});
  return x / 2;
}

Result<int> quarter(int x) {
  MOEC_ASSIGN(int once, half(x));
  MOEC_TRY(half(once));
  return once / 2;
}

TEST(Result, PropagatesFailuresThroughTheMacros) {
  EXPECT_EQ(quarter(8).value(), 2);
  for (int x : {3, 6}) {
    auto result = quarter(x);
    ASSERT_FALSE(result);
    EXPECT_EQ(render(result.error()), "error[half.odd] op x: odd\n  next: give an even number");
  }
}

TEST(InvariantDeathTest, ExitsWithCode3) {
  EXPECT_EXIT(MOEC_CHECK(1 == 2, "{} is not {}", 1, 2), testing::ExitedWithCode(3),
              "internal error: 1 is not 2 \\(tests/ir/base/diagnostics_test.cc:");
}

void lose() { throw std::runtime_error("lost"); }

TEST(InvariantDeathTest, ExitsIfTheReportFails) {
  const auto stop = [](const auto& end) {
    set_up_internal_errors(
        [](const std::string&, const std::string&) { throw std::runtime_error("no room"); });
    end();
  };
  EXPECT_EXIT(stop([] { MOEC_CHECK(false, "stop"); }), testing::ExitedWithCode(3),
              "internal error: stop");
  EXPECT_EXIT(stop([]() noexcept { lose(); }), testing::ExitedWithCode(3),
              "internal error: uncaught exception: lost");
}

TEST(InvariantDeathTest, WritesTheInnermostReproducer) {
  auto stop = [] {
    ReproducerScope outer([] { return std::string("outer.ir"); });
    ReproducerScope inner([] { return std::string("inner.ir"); });
    {
      ReproducerScope gone([] { return std::string("gone.ir"); });
    }
    MOEC_CHECK(false, "stop");
  };
  EXPECT_EXIT(stop(), testing::ExitedWithCode(3), "reproducer: inner.ir");
}

// A failing reproducer hook must not be called again.
TEST(InvariantDeathTest, ExitsIfTheReproducerHookFails) {
  auto stop = [] {
    ReproducerScope scope([]() -> std::string {
      MOEC_CHECK(false, "in the hook");
      return "";
    });
    MOEC_CHECK(false, "first");
  };
  EXPECT_EXIT(stop(), testing::ExitedWithCode(3), "first.*\n.*in the hook");
}

TEST(Nearest, FindsNamesWithFewTypos) {
  const std::string_view known[] = {"softmax", "sigmoid", "conv", "exp"};
  EXPECT_EQ(nearest("sofmax", known), "softmax");
  EXPECT_EQ(nearest("sotfmax", known), "softmax");
  EXPECT_EQ(nearest("sigmiod", known), "sigmoid");
  EXPECT_EQ(nearest("cnov", known), "conv");
  EXPECT_EQ(nearest("conv2", known), "conv");
  EXPECT_EQ(nearest("exp", known), "exp");
  EXPECT_EQ(did_you_mean("cov", known), " (did you mean 'conv'?)");
}

TEST(Nearest, ReturnsNothingForDistantNames) {
  const std::string_view known[] = {"softmax", "conv", "exp"};
  EXPECT_EQ(nearest("transpose", known), "");
  EXPECT_EQ(nearest("cat", known), "");
  EXPECT_EQ(nearest("", known), "");
  EXPECT_EQ(nearest(std::string(1 << 20, 'c'), known), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(did_you_mean("cat", known), "");
}

TEST(Nearest, PrefersTheEarliestOfEqualMatches) {
  const std::string_view known[] = {"k_cache", "v_cache"};
  EXPECT_EQ(nearest("q_cache", known), "k_cache");
}

}  // namespace
}  // namespace moec
