#include "models/published/published.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <set>

#include "frontends/sources/hf/config.h"
#include "models/plan/plan_model.h"
#include "models/plan/shard_sizes.h"
#include "models/shards/build_shard.h"
#include "models/shards/needed_tensors.h"
#include "tests/models/expect_error.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

Plan plan_of(const PublishedModel& published) {
  Result<HfConfig> config = read_config(published.config, published.name);
  EXPECT_TRUE(config.has_value()) << render(config.error());
  WeightTable weights = declared_weights(config->model, DType::bf16);
  BuildOptions options;
  options.dtype = DType::f16;
  options.context = 128;
  Result<Plan> plan = plan_model(std::move(config->model), std::move(weights), options);
  EXPECT_TRUE(plan.has_value()) << render(plan.error());
  return std::move(*plan);
}

// Counts the elements of the tensors that shards and embedding read. Shards of one shape read
// different tensors of equal sizes, so one of them is built. A tied head reads the embedding.
int64_t count_parameters(const Plan& plan) {
  const auto sizes = measure_shards(plan, [](size_t) { return CompiledSize{}; });
  EXPECT_TRUE(sizes.has_value()) << render(sizes.error());
  std::map<size_t, int64_t> shards;  // per built shard: number of shards of its shape
  for (const ShardSize& size : *sizes) ++shards[size.measured];
  const auto elements = [&](const std::string& tensor) {
    return plan.weights.find(tensor)->type.elements();
  };
  std::set<std::string> tensors;
  int64_t count = 0;
  for (const auto& [index, repeats] : shards) {
    const Result<Shard> shard = build_shard(plan, index, 1);
    EXPECT_TRUE(shard.has_value()) << render(shard.error());
    const auto listed = interface_of(*shard).tensors;
    const std::set<std::string> own(listed.begin(), listed.end());
    for (const std::string& tensor : own) count += repeats * elements(tensor);
    tensors.insert(own.begin(), own.end());
  }
  for_each_tensor(plan.embedding, [&](const TensorSource& tensor, const Type&) {
    if (tensors.insert(tensor.name).second) count += elements(tensor.name);
  });
  return count;
}

TEST(Published, MatchesThePublishedParameterCounts) {
  for (const PublishedModel& model : published_models()) {
    SCOPED_TRACE(model.name);
    const int64_t count = count_parameters(plan_of(model));
    EXPECT_TRUE(model.agrees_with(count)) << count << " is not " << model.parameters;
  }
}

TEST(Published, FindsModelsByRepositoryAndPrefix) {
  for (const char* name : {"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", "Qwen3-30B-A3B", "QWEN3-30b"}) {
    const auto model = find_published(name);
    ASSERT_TRUE(model) << render(model.error());
    EXPECT_EQ((*model)->checkpoint, "Qwen/Qwen3-30B-A3B") << name;
  }
  // A full name takes precedence over longer names that start with it.
  EXPECT_EQ((*find_published("GLM-4.5"))->name, "glm-4.5");
  expect_error(find_published("gpt-oss"), "published.several", "\"gpt-oss\"");
  for (const char* name : {"", "ol", "qwen3-31b", "zai-org/", "30b"})
    expect_error(find_published(name), "published.unknown", "no file, folder or published model");
}

TEST(Published, IndexesEachFile) {
  std::set<std::string> files = {"index.json"}, found;
  for (const PublishedModel& model : published_models()) files.insert(model.name + ".json");
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/models/published"))
    if (entry.path().extension() == ".json") found.insert(entry.path().filename());
  EXPECT_EQ(files, found);
}

TEST(Published, ComparesTotalsToTheirLastDigit) {
  const PublishedModel rounded{"", "", "80.4B", ""}, whole{"", "", "80B", ""},
      exact{"", "", "12", ""};
  EXPECT_TRUE(rounded.agrees_with(80'350'000'001));
  EXPECT_TRUE(rounded.agrees_with(80'449'999'999));
  EXPECT_FALSE(rounded.agrees_with(80'450'000'001));
  EXPECT_TRUE(whole.agrees_with(80'450'000'001));
  EXPECT_FALSE(whole.agrees_with(79'000'000'000));
  EXPECT_TRUE(exact.agrees_with(12));
  EXPECT_FALSE(exact.agrees_with(13));
}

TEST(Published, SuggestsTheNearestName) {
  const auto found = find_published("qwen3-30b-a3c");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error()[0].code, "published.unknown");
  EXPECT_THAT(found.error()[0].cause, testing::HasSubstr("qwen3-30b-a3b"));
  EXPECT_EQ((*find_published("olmoe-1b-7b"))->checkpoint, "allenai/OLMoE-1B-7B-0924");
}

}  // namespace
}  // namespace moec
