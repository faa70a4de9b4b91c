// Opens, plans, builds and verifies every golden checkpoint, for each form of shards.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "backends/weights/views/equal_tensors.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/verify/verify.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "tests/golden_cases.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

std::string folder_of(const std::string& name) {
  return source_dir() + (name.starts_with("tiny") ? "/models/" : "/tests/golden/") + name;
}

// The folders in `others` contain goldens of variants and of upcycled checkpoints.
TEST(GoldenCases, CoverEachFolder) {
  const std::set<std::string> others = {"top_k", "upcycled"};
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/golden"))
    if (const std::string name = entry.path().filename();
        entry.is_directory() && !others.contains(name)) {
      EXPECT_EQ(std::count(kGoldenCases.begin(), kGoldenCases.end(), name), 1) << name;
    }
}

std::vector<BuildOptions> forms() {
  BuildOptions plain;
  plain.tokens = {1, 6};
  plain.context = 32;
  BuildOptions rows = plain;
  rows.dtype = DType::f16;
  rows.layout = Layout::rows;
  rows.head_slices = 3;
  BuildOptions host = plain;
  host.cache = CacheForm::blend;
  host.host_routing = true;
  host.experts_per_shard = 2;
  BuildOptions one_group = plain;
  one_group.host_routing = true;
  return {plain, rows, host, one_group};
}

class GoldenPlan : public testing::TestWithParam<const char*> {};

TEST_P(GoldenPlan, BuildsAndVerifiesInEachForm) {
  Result<Checkpoint> checkpoint = open_checkpoint(folder_of(GetParam()), equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  for (const Diagnostic& found : checkpoint->warnings)
    EXPECT_EQ(found.severity, Severity::note) << render(found);
  for (const BuildOptions& options : forms()) {
    Result<Plan> plan = plan_model(checkpoint->config, checkpoint->weights, options);
    ASSERT_TRUE(plan.has_value()) << render(plan.error());
    for (int64_t tokens : options.tokens) {
      std::vector<ShardInterface> interfaces;
      for (size_t i = 0; i < plan->shards.size(); ++i) {
        Result<Shard> shard = build_shard(*plan, i, tokens);
        ASSERT_TRUE(shard.has_value()) << render(shard.error());
        EXPECT_EQ(render(verify(*shard)), "") << plan->shards[i].name;
        EXPECT_EQ(shard->name, plan->shards[i].name);
        interfaces.push_back(interface_of(*shard));
      }
      EXPECT_EQ(render(verify_plan(*plan, interfaces)), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenPlan, testing::ValuesIn(kGoldenCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moec
