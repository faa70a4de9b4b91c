// Runs model-form shards in schedule order on the reference executor and compares them with
// transformers on the same checkpoint: the attention and feed-forward output of each layer and the
// logits, for prefill and cached decode steps. Models without a cache have one step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/formats/safetensors/safetensors.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/sources/hf/checkpoint.h"
#include "models/plan/plan_model.h"
#include "tests/golden_cases.h"
#include "tests/models/schedule_runner.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

constexpr int64_t kDecodeSteps = 4;

// Bound of the relative L2 error; the largest observed error is 2.4e-6. For recurrences, the
// reference sums tokens in another order and the state accumulates the difference, up to 1.3e-5.
double tolerance_of(const ModelConfig& model) { return model.recurrent ? 3e-5 : 1e-5; }

// Reads golden.safetensors.
class Golden {
 public:
  static Golden open(const std::string& name) {
    std::string path = source_dir() + "/tests/golden/" + name + "/golden.safetensors";
    auto header = read_safetensors(path);
    EXPECT_TRUE(header.has_value()) << render(header.error());
    WeightTable table;
    table.files.push_back({path, header->file_bytes});
    for (const SafetensorsEntry& entry : header->tensors)
      if (auto type = ir_type(entry)) table.tensors[entry.name] = {0, entry.begin, *type};
    auto reader = WeightReader::open(std::move(table));
    EXPECT_TRUE(reader.has_value());
    return Golden(std::move(*reader));
  }

  bool has(const std::string& name) const { return reader_.table().find(name) != nullptr; }
  const Type& type(const std::string& name) const { return reader_.table().find(name)->type; }
  std::vector<float> read(const std::string& name) const {
    const TensorRange* range = reader_.table().find(name);
    EXPECT_NE(range, nullptr) << name;
    if (range == nullptr) return {};
    auto values = reader_.read_f32(tensor_view(name, range->type), 1 << 26);
    EXPECT_TRUE(values.has_value());
    return values.value_or(std::vector<float>{});
  }

 private:
  explicit Golden(WeightReader reader) : reader_(std::move(reader)) {}
  WeightReader reader_;
};

double relative_l2(const std::vector<float>& got, const std::vector<float>& wanted) {
  if (got.size() != wanted.size() || wanted.empty()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - wanted[i], 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(difference / norm);
}

int64_t last_layer(const ShardDecl& shard) { return shard.layer + shard.layers - 1; }

bool is_last_of_its_shard(const Plan& plan, size_t layer) {
  return std::any_of(plan.shards.begin(), plan.shards.end(), [&](const ShardDecl& shard) {
    return shard.layer >= 0 && last_layer(shard) == static_cast<int64_t>(layer);
  });
}

// Returns the edge with a layer's output: the first output of the layer's last shard.
std::string layer_output(const Plan& plan, size_t layer) {
  std::string edge;
  for (const Step& step : plan.schedule)
    if (last_layer(plan.shards[step.shard]) == static_cast<int64_t>(layer))
      edge = step.outputs.front().edge;
  return edge;
}

void expect_step(const Golden& golden, const Plan& plan, ScheduleRunner& runner,
                 const std::string& step, int64_t position) {
  const int64_t tokens = golden.type(step + ".tokens").dims[0];
  auto edges = runner.run(golden.read(step + ".embed"), tokens, position);
  const double tolerance = tolerance_of(plan.model);
  for (size_t i = 0; i < plan.model.layers.size(); ++i) {
    std::string layer = fmt::format("L{:02}", i);
    // Layers that are not the last of their shard have no edge.
    if (!is_last_of_its_shard(plan, i)) continue;
    if (plan.build.layers_per_shard == 0 && plan.model.layers[i].mixes()) {
      EXPECT_LE(
          relative_l2(edges[layer + ".hidden"], golden.read(step + "." + layer + ".attn_out")),
          tolerance)
          << step << " " << layer << " attention";
    }
    EXPECT_LE(
        relative_l2(edges[layer_output(plan, i)], golden.read(step + "." + layer + ".ffn_out")),
        tolerance)
        << step << " " << layer << " feed-forward";
  }
  EXPECT_LE(relative_l2(edges["logits"], golden.read(step + ".logits")), tolerance) << step;
}

void expect_golden(const std::string& name, BuildOptions options) {
  std::string folder = (name.starts_with("tiny") ? "/models/" : "/tests/golden/") + name;
  auto checkpoint = open_checkpoint(source_dir() + folder, equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  Golden golden = Golden::open(name);
  const int64_t prefill = golden.type("prefill.tokens").dims[0];
  options.tokens = {1, prefill};
  options.context = prefill + kDecodeSteps;
  auto plan = plan_model(checkpoint->config, checkpoint->weights, options);
  ASSERT_TRUE(plan.has_value()) << render(plan.error());
  auto weights = WeightReader::open(plan->weights);
  ASSERT_TRUE(weights.has_value());
  ScheduleRunner runner(*plan, *weights);
  expect_step(golden, *plan, runner, "prefill", 0);
  const int64_t decode_steps = golden.has("decode0.tokens") ? kDecodeSteps : 0;
  for (int64_t i = 0; i < decode_steps; ++i)
    expect_step(golden, *plan, runner, fmt::format("decode{}", i), prefill + i);
}

class GoldenValues : public testing::TestWithParam<const char*> {};

TEST_P(GoldenValues, MatchesWithAppendedCaches) { expect_golden(GetParam(), {}); }

TEST_P(GoldenValues, MatchesWithBlendedCachesInRows) {
  BuildOptions options;
  options.cache = CacheForm::blend;
  options.layout = Layout::rows;
  options.head_slices = 3;
  expect_golden(GetParam(), options);
}

TEST_P(GoldenValues, MatchesWithHostRoutingInGroups) {
  BuildOptions options;
  options.host_routing = true;
  options.experts_per_shard = 2;
  expect_golden(GetParam(), options);
}

// Cuts every expert, shared expert and dense MLP into three slices of its intermediate width.
// Biases of down are added once; gates of shared experts multiply each slice.
TEST_P(GoldenValues, MatchesWithSlicedExpertsAndMlps) {
  const std::string name = GetParam();
  const std::string folder = (name.starts_with("tiny") ? "/models/" : "/tests/golden/") + name;
  const auto checkpoint = open_checkpoint(source_dir() + folder, equal_tensors);
  ASSERT_TRUE(checkpoint.has_value()) << render(checkpoint.error());
  const ModelConfig& model = checkpoint->config;
  BuildOptions options;
  options.host_routing = true;
  options.experts_per_shard = 1;
  options.slices.expert = 3;
  options.slices.shared = model.moe.shared_ff > 0 ? 3 : 0;
  options.slices.mlp = model.mlp.ff > 0 ? 3 : 1;
  expect_golden(name, options);
}

// A shared expert next to the first group is sliced with it.
TEST_P(GoldenValues, MatchesWithSlicedSharedExperts) {
  BuildOptions options;
  options.host_routing = true;
  options.experts_per_shard = 2;
  options.slices.expert = 2;
  expect_golden(GetParam(), options);
}

TEST_P(GoldenValues, MatchesWithTwoLayersPerShard) {
  BuildOptions options;
  options.layers_per_shard = 2;
  expect_golden(GetParam(), options);
}

class LatentGolden : public testing::TestWithParam<const char*> {};

TEST_P(LatentGolden, MatchesWithExpandedAppendedCaches) {
  expect_golden(GetParam(), {.mla = MlaForm::expanded});
}

TEST_P(LatentGolden, MatchesWithExpandedBlendedCaches) {
  BuildOptions options;
  options.mla = MlaForm::expanded;
  options.cache = CacheForm::blend;
  options.layout = Layout::rows;
  expect_golden(GetParam(), options);
}

INSTANTIATE_TEST_SUITE_P(Mla, LatentGolden,
                         testing::Values("deepseek_v2_a", "deepseek_v2_b", "deepseek_v3_a",
                                         "deepseek_v3_b", "deepseek_v3_c", "deepseek_v3_d"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(All, GoldenValues, testing::ValuesIn(kGoldenCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moec
