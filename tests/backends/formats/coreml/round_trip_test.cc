// Emits shards as packages, reads them back, and compares the shards and their results.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/formats/coreml/emit_coreml.h"
#include "backends/formats/coreml/read_coreml.h"
#include "backends/reference/reference.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/text/text.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "passes/pipeline.h"
#include "tests/backends/formats/onnx/testing.h"
#include "tests/frontends/filed_shard.h"
#include "tests/golden_cases.h"
#include "tests/models/distinct_shards.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

// Returns the shard as a package stores it: with every element of each constant, and without slices
// that keep everything.
Shard as_packaged(const Shard& shard) {
  Shard packaged = as_filed(shard);
  for (OpId id : op_ids(packaged)) {
    Op& op = packaged.ops[id];
    if (auto* constant = std::get_if<Constant>(&op.data)) {
      std::vector<double>& values = constant->values;
      if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end())
        values.resize(1);
    }
    if (std::holds_alternative<Slice>(op.data))
      if (const Type& type = packaged.type(op.results[0]); type == packaged.type(op.operands[0]))
        op.data = Slice{0, 0, type.dims[0]};
  }
  return packaged;
}

void expect_equal(const Shard& emitted, const Shard& read) {
  const Shard expected = as_packaged(emitted), got = with_nameless_views(read);
  ASSERT_TRUE(expected == got) << print(expected) << print(got);
}

// Compares the f16 results of the original shard and of the package bit for bit.
void expect_same_results(const Shard& shard, const WeightTable& weights, const LoadedShard& read) {
  const std::vector<Tensor> inputs = seeded_inputs(shard, 7);
  auto run = [&](const Shard& each, const WeightTable& table) {
    auto executor = Executor::create(each, table, {.precision = Precision::f16});
    EXPECT_TRUE(executor) << render(executor.error());
    return executor->run(inputs).value();
  };
  EXPECT_EQ(run(read.shard, read.weights), run(shard, weights));
}

struct RoundTrip {
  std::vector<ShardWidth> widths;
  WeightTable weights;
  CoremlOptions options;
};

// Emits all widths together, then reads each one back.
void expect_round_trip(const RoundTrip& given, const TestFolder& folder) {
  auto reader = WeightReader::open(given.weights);
  ASSERT_TRUE(reader) << render(reader.error());
  auto report = emit_coreml(given.widths, *reader, {.folder = folder.string(), .stem = "shard"},
                            given.options);
  ASSERT_TRUE(report) << render(report.error());
  ASSERT_EQ(report->graphs.size(), given.widths.size());
  for (size_t i = 0; i < given.widths.size(); ++i) {
    const EmittedGraph& graph = report->graphs[i];
    auto read =
        read_coreml(folder / graph.file.path, {.function = graph.function, .tokens = graph.tokens});
    ASSERT_TRUE(read) << render(read.error()) << print(*given.widths[i].shard);
    expect_equal(*given.widths[i].shard, read->shard);
    expect_same_results(*given.widths[i].shard, given.weights, *read);
  }
}

void expect_round_trip(const Shard& shard) {
  const TestFolder folder;
  expect_round_trip({{{1, &shard}}, {}, {}}, folder);
}

TEST(CoremlRoundTrip, ReadsBackEveryOp) {
  for (DType dtype : {DType::f32, DType::f16})
    for (Layout layout : {Layout::rows, Layout::channels, Layout::bc1s})
      for (int64_t tokens : {1, 4}) expect_round_trip(every_op_shard(dtype, layout, tokens, false));
}

TEST(CoremlRoundTrip, ReadsBackRandomShards) {
  for (uint64_t seed = 0; seed < 60 && !testing::Test::HasFailure(); ++seed)
    expect_round_trip(random_shard(seed));
}

TEST(CoremlRoundTrip, ReadsBackConstantsOfEachType) {
  Builder b("s", Form::placed);
  b.output("x_again", b.input("x", {DType::f16, {3}}));
  std::vector<double> many;
  for (int i = 0; i < 24; ++i) many.push_back(i);
  for (DType dtype : {DType::f32, DType::f16, DType::i32}) {
    b.constant({dtype, {3}}, {0, 1, 100});
    b.constant({dtype, {2, 12}}, many);
    b.constant({dtype, {2, 12}}, {7});
    b.constant({dtype, {}}, {7});
  }
  b.constant({DType::boolean, {2}}, {1, 0});
  b.constant({DType::boolean, {2, 12}}, {1});
  expect_round_trip(b.finish());
}

TEST(CoremlRoundTrip, DistinguishesNegationsFromProducts) {
  Builder b("s", Form::placed);
  const ValueId x = b.input("x", {DType::f16, {3}});
  b.output("negated", b.unary(UnaryFn::neg, x));
  b.output("product", b.mul(x, b.scalar_like(x, -1)));
  expect_round_trip(b.finish());
}

// ---- Compiled shards of the golden families ----------------------------------------------------

class CoremlFamilies : public testing::TestWithParam<const char*> {
 protected:
  // Emits each distinct shard of the family's plan at every width with the given options and reads
  // it back.
  void expect_shards(BuildOptions build, PassOptions passes, const CoremlOptions& coreml) {
    const std::string name = GetParam();
    auto checkpoint = open_checkpoint(source_dir() + "/tests/golden/" + name, equal_tensors);
    ASSERT_TRUE(checkpoint) << render(checkpoint.error());
    build.dtype = DType::f16;
    build.tokens = {1, 4};
    build.context = 16;
    passes.routing = build.host_routing ? RoutingForm::host : passes.routing;
    auto plan = plan_model(checkpoint->config, checkpoint->weights, build);
    ASSERT_TRUE(plan) << render(plan.error());
    const TestFolder folder;
    for (const size_t i : distinct_shards(*plan)) {
      expect_shard(*plan, i, passes, coreml, folder);
      if (HasFatalFailure()) return;
    }
  }

 private:
  static void expect_shard(const Plan& plan, size_t index, const PassOptions& passes,
                           const CoremlOptions& coreml, const TestFolder& folder) {
    std::vector<Shard> shards;
    for (int64_t tokens : plan.build.tokens) {
      auto model = build_shard(plan, index, tokens);
      ASSERT_TRUE(model) << render(model.error());
      PassContext context{passes, {}};
      auto placed = run_pipeline(*model, default_pipeline(passes), context);
      ASSERT_TRUE(placed) << render(placed.error());
      shards.push_back(std::move(placed->shard));
    }
    RoundTrip given{{}, plan.weights, coreml};
    for (size_t i = 0; i < shards.size(); ++i)
      given.widths.push_back({plan.build.tokens[i], &shards[i]});
    expect_round_trip(given, folder);
  }
};

TEST_P(CoremlFamilies, ReadsBackCachesAsInputs) { expect_shards({}, {}, {}); }

INSTANTIATE_TEST_SUITE_P(All, CoremlFamilies, testing::ValuesIn(kFamilyCases),
                         [](const auto& info) { return std::string(info.param); });

class HostRoutedFamilies : public CoremlFamilies {};

TEST_P(HostRoutedFamilies, ReadBackFromBanks) {
  BuildOptions build;
  build.host_routing = true;
  build.experts_per_shard = 2;
  PassOptions passes;
  passes.experts = ExpertForm::bank;
  expect_shards(build, passes, {});
}

INSTANTIATE_TEST_SUITE_P(First, HostRoutedFamilies, testing::ValuesIn(first_cases()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moec
