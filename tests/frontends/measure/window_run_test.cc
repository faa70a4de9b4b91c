// Compares the values between the shards of a model during calibration with the goldens of all
// families.
#include "frontends/measure/window_run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/weights/views/equal_tensors.h"
#include "frontends/jobs/calibrate/tapped_inputs.h"
#include "frontends/measure/golden.h"
#include "frontends/measure/window_plan.h"
#include "frontends/sources/open_source.h"
#include "tests/frontends/cli/command.h"
#include "tests/golden_cases.h"

namespace moec {
namespace {

double relative_l2(const std::vector<float>& found, const std::vector<float>& wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  double error = 0, size = 0;
  for (size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    error += std::pow(double(found[i]) - double(wanted[i]), 2);
    size += std::pow(double(wanted[i]), 2);
  }
  return std::sqrt(error / size);
}

class CalibratedFamilies : public testing::TestWithParam<const char*> {};

// `group_bytes` of 1 puts each expert into a separate group.
void expect_golden_layers(const std::string& name, uint64_t group_bytes) {
  const std::string source = checkpoint_of(name);
  const std::string folder = source_path("tests/golden/" + name);
  auto checkpoint = open_source(source, {}, equal_tensors);
  auto golden = Golden::open(folder);
  ASSERT_TRUE(checkpoint && golden);
  const GoldenStep& first = golden->steps().front();
  const Text text = cut_tokens(first.tokens, std::ssize(first.tokens));
  const auto plan = window_plan(checkpoint->config, checkpoint->weights, text.window, group_bytes);
  ASSERT_TRUE(plan) << render(plan.error());
  const auto weights = WeightReader::open(plan->weights);
  ASSERT_TRUE(weights);
  WindowRun run(*plan, text);
  ASSERT_TRUE(run.embed(*weights));
  for (size_t s = 0; s < plan->schedule.size(); ++s) {
    const auto tapped = tap_shard(*plan, plan->schedule[s].shard);
    ASSERT_TRUE(tapped);
    // Without a shared expert, the shard that ends a layer has no matrices.
    const bool ends_only = plan->shards[plan->schedule[s].shard].kind == ShardKind::shared &&
                           plan->model.moe.shared_ff == 0;
    EXPECT_EQ(tapped->inputs.empty(), ends_only);
    for (const TappedInput& input : tapped->inputs) EXPECT_FALSE(input.input.matrices.empty());
    auto executor = Executor::create(tapped->body, *weights);
    ASSERT_TRUE(executor && run.step(s, *executor));
    const ShardDecl& shard = plan->shards[plan->schedule[s].shard];
    const bool last = s + 1 == plan->schedule.size() ||
                      plan->shards[plan->schedule[s + 1].shard].layer != shard.layer;
    if (shard.layer < 0 || !last) continue;
    const auto wanted = golden->rows(Golden::name(first.name, shard.layer, "ffn_out"));
    ASSERT_TRUE(wanted) << shard.name;
    EXPECT_LT(relative_l2(run.edge(plan->schedule[s].outputs.front().edge).data, wanted->data),
              1e-4)
        << name << " " << shard.name;
  }
}

// Output of the last layer for the golden's text, in a window with `fill` additional tokens.
Rows last_rows(const std::string& name, int64_t fill) {
  auto checkpoint = open_source(checkpoint_of(name), {}, equal_tensors);
  auto golden = Golden::open(source_path("tests/golden/" + name));
  if (!checkpoint || !golden) return {};
  std::vector<int64_t> tokens = golden->steps().front().tokens;
  const auto count = std::ssize(tokens);
  tokens.insert(tokens.end(), static_cast<size_t>(fill), tokens.back());
  Text text = cut_tokens(tokens, count + fill);
  text.parts.front().count = count;
  const auto plan =
      window_plan(checkpoint->config, checkpoint->weights, text.window, uint64_t{1} << 30);
  const auto weights = WeightReader::open(plan->weights);
  WindowRun run(*plan, text);
  EXPECT_TRUE(run.embed(*weights));
  std::string last;
  for (size_t s = 0; s < plan->schedule.size(); ++s) {
    if (plan->shards[plan->schedule[s].shard].layer < 0) break;
    const auto tapped = tap_shard(*plan, plan->schedule[s].shard);
    auto executor = Executor::create(tapped->body, *weights);
    EXPECT_TRUE(executor && run.step(s, *executor));
    last = plan->schedule[s].outputs.front().edge;
  }
  Rows rows = run.edge(last);
  rows.data.resize(static_cast<size_t>(count * rows.columns));
  return rows;
}

TEST_P(CalibratedFamilies, IgnoreFillTokensOfWindows) {
  const Rows exact = last_rows(GetParam(), 0), filled = last_rows(GetParam(), 3);
  ASSERT_FALSE(exact.data.empty());
  EXPECT_LT(relative_l2(filled.data, exact.data), 1e-5);
}

TEST_P(CalibratedFamilies, MatchTheReference) {
  expect_golden_layers(GetParam(), uint64_t{1} << 30);
}
TEST_P(CalibratedFamilies, MatchTheReferenceInExpertGroups) { expect_golden_layers(GetParam(), 1); }

INSTANTIATE_TEST_SUITE_P(, CalibratedFamilies, testing::ValuesIn(kGoldenCases),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace moec
