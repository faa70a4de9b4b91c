// Plans without using the command line.
#include "frontends/jobs/plan/plan_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/targets/find_target.h"

namespace moec {
namespace {

PlanSourceOptions options_for(const std::string& source) {
  PlanSourceOptions options;
  options.source = source;
  options.passes.target = find_target("onnx").value();
  options.request.build.head_slices = 0;
  options.request.build.tokens = {1};
  return options;
}

TEST(PlanSource, PlansAPublishedModel) {
  PlanSourceOptions options = options_for("qwen3-30b-a3b");
  options.resident_bytes = int64_t{1} << 34;
  options.devices.devices = {{.name = "a", .bytes = int64_t{1} << 38}};
  const auto planned = plan_source(options);
  ASSERT_TRUE(planned.has_value()) << render(planned.error());
  EXPECT_EQ(planned->measured.report.parameters, 30532122624);
  EXPECT_EQ(planned->resident->layers, 48);
  const nlohmann::ordered_json json = plan_json(*planned);
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["source"], "qwen3-30b-a3b");
  EXPECT_EQ(json["target"], "onnx");
  EXPECT_EQ(json["parameters"], 30532122624);
  EXPECT_EQ(json["devices"].size(), 1u);
  EXPECT_FALSE(json.contains("replicas"));
}

TEST(PlanSource, ReportsAShardAboveItsBudget) {
  PlanSourceOptions options = options_for("qwen3-30b-a3b");
  at(options.request.cuts.budgets, ShardKind::attention) = {1000};
  const auto planned = plan_source(options);
  ASSERT_TRUE(planned.has_value()) << render(planned.error());
  EXPECT_TRUE(has_error(planned->findings));
  EXPECT_EQ(plan_json(*planned)["ok"], false);
}

TEST(PlanSource, CountsParametersOfPublishedModels) {
  const auto sizes = published_sizes();
  ASSERT_TRUE(sizes.has_value());
  const auto found = std::find_if(sizes->begin(), sizes->end(), [](const PublishedSize& size) {
    return size.name == "qwen3-30b-a3b";
  });
  ASSERT_NE(found, sizes->end());
  EXPECT_EQ(found->checkpoint, "Qwen/Qwen3-30B-A3B");
  EXPECT_EQ(found->parameters, 30532122624);
  EXPECT_EQ(published_json(*sizes)["models"].size(), sizes->size());
}

}  // namespace
}  // namespace moec
