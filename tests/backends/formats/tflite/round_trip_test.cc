// Emits shards as TFLite files, reads them back, and compares the graphs and their results.
#include <gtest/gtest.h>

#include "backends/coverage/graph_digest.h"
#include "backends/formats/tflite/read_tflite.h"
#include "backends/reference/reference.h"
#include "backends/targets/load_target.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/text/text.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "passes/pipeline.h"
#include "tests/backends/formats/tflite/testing.h"
#include "tests/golden_cases.h"
#include "tests/models/distinct_shards.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

std::vector<Tensor> results_of(const Shard& shard, const WeightTable& weights) {
  auto executor = Executor::create(shard, weights, {});
  EXPECT_TRUE(executor) << render(executor.error());
  return executor->run(seeded_inputs(shard, 7)).value();
}

void expect_equal(const Shard& emitted, const WeightTable& weights, const LoadedShard& read) {
  EXPECT_EQ(digest_graph(read.shard, find_experts(read.shard, 0)),
            digest_graph(emitted, find_experts(emitted, 0)))
      << print(emitted) << print(read.shard);
  EXPECT_EQ(results_of(read.shard, read.weights), results_of(emitted, weights));
}

// Emits all widths together, then reads each one back.
void expect_round_trip(const std::vector<ShardWidth>& widths, const WeightTable& weights = {}) {
  const TestFolder folder;
  auto reader = WeightReader::open(weights);
  ASSERT_TRUE(reader) << render(reader.error());
  auto report = emit_tflite(widths, *reader, {.folder = folder.string(), .stem = "shard"});
  ASSERT_TRUE(report) << render(report.error());
  ASSERT_EQ(report->graphs.size(), widths.size());
  for (size_t i = 0; i < widths.size(); ++i) {
    const EmittedGraph& graph = report->graphs[i];
    auto read = read_tflite(folder / graph.file.path, graph.function);
    ASSERT_TRUE(read) << render(read.error()) << print(*widths[i].shard);
    expect_equal(*widths[i].shard, weights, *read);
  }
}

void expect_round_trip(const Shard& shard) { expect_round_trip({{1, &shard}}); }

TEST(TfliteRoundTrip, KeepsEveryOp) {
  for (DType dtype : {DType::f32, DType::f16})
    for (int64_t tokens : {1, 4}) expect_round_trip(every_tflite_op(dtype, tokens));
}

TEST(TfliteRoundTrip, KeepsGelu) {
  for (DType dtype : {DType::f32, DType::f16}) expect_round_trip(gelu_shard(dtype));
}

TEST(TfliteRoundTrip, KeepsConvolutions) {
  for (const int64_t groups : {1, 2, 6})
    for (const bool bias : {false, true}) expect_round_trip(conv_shard(DType::f32, groups, bias));
}

TEST(TfliteRoundTrip, KeepsQuantizedWeights) {
  for (const int64_t bits : {4, 8}) expect_round_trip(coded_shard({bits, {1, 64}}, 64));
  expect_round_trip(coded_shard({8, {1, 33}}, 33));
}

TEST(TfliteRoundTrip, KeepsProductsOfManyAxes) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f32, {1, 2, 3, 4}});
  const ValueId w = b.weight(seeded_view(1, {DType::f32, {5, 4}}), "w");
  const ValueId columns = b.reshape(b.transpose(w, {1, 0}), {1, 1, 4, 5});
  b.output("y", b.matmul(x, columns));
  expect_round_trip(b.finish());
}

TEST(TfliteRoundTrip, DistinguishesReciprocalsFromDivisions) {
  Builder b("s", Form::placed);
  const ValueId input = b.input("x", {DType::f32, {3, 4}});
  const ValueId x = b.add(input, b.scalar_like(input, 4));
  b.output("reciprocal", b.unary(UnaryFn::reciprocal, x));
  b.output("quotient", b.div(b.scalar_like(x, 1), x));
  expect_round_trip(b.finish());
}

TEST(TfliteRoundTrip, KeepsConstantsOfEachType) {
  Builder b("s", Form::placed);
  b.output("x_again", b.input("x", {DType::f32, {3}}));
  for (DType dtype : {DType::f32, DType::f16, DType::i32, DType::i64, DType::u8}) {
    b.output("some_" + std::string(dtype_name(dtype)), b.constant({dtype, {3}}, {0, 1, 100}));
    b.output("one_" + std::string(dtype_name(dtype)), b.constant({dtype, {2, 3}}, {7}));
  }
  b.output("bools", b.constant({DType::boolean, {2}}, {1, 0}));
  const TestFolder folder;
  const Shard shard = b.finish();
  ASSERT_TRUE(emit_widths({{1, &shard}}, folder));
  const auto read = read_tflite(folder / "shard.tflite");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(digest_graph(read->shard, find_experts(read->shard, 0)),
            digest_graph(shard, find_experts(shard, 0)));
}

// Softmaxes along the channels of a convolution have no TFLite form.
TEST(TfliteRoundTrip, KeepsRandomShards) {
  size_t emitted = 0;
  for (uint64_t seed = 0; seed < 80 && !testing::Test::HasFailure(); ++seed) {
    const Shard shard = random_shard(seed);
    const ShardWidth width{1, &shard};
    if (!tflite_weight_views({&width, 1})) continue;
    expect_round_trip(shard);
    ++emitted;
  }
  EXPECT_GT(emitted, 40u);
}

// ---- Compiled shards of the golden families ----------------------------------------------------

class TfliteFamilies : public testing::TestWithParam<const char*> {};

TEST_P(TfliteFamilies, ReadsBackDistinctShards) {
  const std::string name = GetParam();
  auto checkpoint = open_checkpoint(source_dir() + "/tests/golden/" + name, equal_tensors);
  ASSERT_TRUE(checkpoint) << render(checkpoint.error());
  const PassOptions passes{.target = builtin_target("litert").value()};
  BuildOptions build{.layout = Layout::rows};
  build.tokens = {1, 4};
  build.context = 16;
  auto plan = plan_model(checkpoint->config, checkpoint->weights, build);
  ASSERT_TRUE(plan) << render(plan.error());
  for (const size_t index : distinct_shards(*plan)) {
    std::vector<Shard> shards;
    for (const int64_t tokens : build.tokens) {
      auto model = build_shard(*plan, index, tokens);
      ASSERT_TRUE(model) << render(model.error());
      PassContext context{passes, {}};
      auto placed = run_pipeline(*model, default_pipeline(passes), context);
      ASSERT_TRUE(placed) << render(placed.error());
      shards.push_back(std::move(placed->shard));
    }
    expect_round_trip({{1, &shards.front()}, {4, &shards.back()}}, plan->weights);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TfliteFamilies, testing::ValuesIn(kFamilyCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moec
