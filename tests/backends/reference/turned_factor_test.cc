// A product reads the untransposed matrix if its right factor is a transpose.
#include <optional>

#include "tests/backends/reference/testing.h"

namespace moec {
namespace {

struct Keys {
  int64_t queries = 1, dims = 1, keys = 1;
};

constexpr Keys kKeys[] = {{1, 32, 513}, {2, 32, 513}, {4, 3, 7}, {5, 33, 70}, {64, 16, 64}};

// Scores of queries [1, 2, queries, dims] with keys [1, 2, keys, dims]. `keeps_transpose` makes the
// transpose an output, so it must be computed.
Shard scores_of(const Keys& sizes, DType dtype, bool keeps_transpose) {
  Builder build("L00.test", Form::model);
  const ValueId q = build.input("q", {dtype, {1, 2, sizes.queries, sizes.dims}});
  const ValueId k = build.input("k", {dtype, {1, 2, sizes.keys, sizes.dims}});
  const ValueId doubled = build.emit(Binary{BinaryFn::add}, {k, k}, "doubled");
  const ValueId turned = build.emit(Transpose{{0, 1, 3, 2}, Layout::plain}, {doubled}, "turned");
  build.output("scores", build.emit(MatMul{}, {q, turned}, "scores"));
  if (keeps_transpose) build.output("turned", turned);
  return build.finish();
}

std::vector<Tensor> run_once(const Shard& shard, Precision precision, const Probe& probe = {}) {
  auto executor = Executor::create(shard, WeightTable{}, {.precision = precision});
  EXPECT_TRUE(executor);
  auto outputs = executor->run(seeded_inputs(shard, 7), probe);
  EXPECT_TRUE(outputs) << render(outputs.error());
  return outputs ? *outputs : std::vector<Tensor>();
}

TEST(TurnedFactor, MatchesScoresOfTheTranspose) {
  for (const Keys& sizes : kKeys) {
    const Tensor got = run_once(scores_of(sizes, DType::f32, false), Precision::f32).at(0);
    const Tensor expected = run_once(scores_of(sizes, DType::f32, true), Precision::f32).at(0);
    ASSERT_EQ(got.type, expected.type);
    for (size_t i = 0; i < got.data.size(); ++i)
      ASSERT_NEAR(got.data[i], expected.data[i], 1e-5F) << sizes.queries << " queries, at " << i;
  }
}

TEST(TurnedFactor, ExposesTheTransposeToProbes) {
  for (const Keys& sizes : kKeys)
    for (const Precision precision : {Precision::f32, Precision::f16}) {
      const Shard shard = scores_of(sizes, DType::f32, false);
      std::optional<Tensor> seen;
      const auto watched = run_once(shard, precision, [&](std::string_view label, const Tensor& t) {
        if (label == "turned") seen = t;
      });
      EXPECT_EQ(watched, run_once(shard, precision));
      ASSERT_TRUE(seen);
      const Shard keeps = scores_of(sizes, DType::f32, true);
      EXPECT_EQ(seen->data, run_once(keeps, precision).at(1).data);
    }
}

// The product of a transpose and itself, so the transpose is also a left factor.
TEST(TurnedFactor, ComputesTransposesUsedAsLeftFactors) {
  Builder build("L00.test", Form::model);
  const ValueId x = build.input("x", {DType::f32, {3, 3}});
  const ValueId turned = build.emit(Transpose{{1, 0}, Layout::plain}, {x}, "turned");
  build.output("y", build.emit(MatMul{}, {turned, turned}, "y"));
  const Shard shard = build.finish();
  auto outputs = evaluate(shard, {plain({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})});
  ASSERT_TRUE(outputs);
  EXPECT_EQ(outputs->at(0).data, (std::vector<float>{30, 66, 102, 36, 81, 126, 42, 96, 150}));
}

TEST(TurnedFactor, ReadsStatesInPlace) {
  Builder build("L00.test", Form::model);
  const Type keys{DType::f32, {1, 1, 3, 2}};
  build.state("k_state", keys);
  const ValueId q = build.input("q", {DType::f32, {1, 1, 1, 2}});
  const ValueId k = build.emit(StateRead{"k_state"}, {}, "k");
  const ValueId turned = build.emit(Transpose{{0, 1, 3, 2}, Layout::plain}, {k}, "turned");
  build.output("scores", build.emit(MatMul{}, {q, turned}, "scores"));
  const ValueId more = build.emit(Binary{BinaryFn::add}, {k, k}, "more");
  build.emit_all(StateWrite{"k_state"}, {more});
  const Shard shard = build.finish();
  auto executor = Executor::create(shard, WeightTable{});
  ASSERT_TRUE(executor);
  ASSERT_TRUE(executor->set_state("k_state", plain(keys.dims, {1, 2, 3, 4, 5, 6})));
  const std::vector<Tensor> inputs = {plain({1, 1, 1, 2}, {1, 10})};
  auto first = executor->run(inputs), second = executor->run(inputs);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->at(0).data, (std::vector<float>{21, 43, 65}));
  EXPECT_EQ(second->at(0).data, (std::vector<float>{42, 86, 130}));
}

TEST(Inputs, StayUnchangedByRuns) {
  for (const DType dtype : {DType::f32, DType::f16})
    for (const Precision precision : {Precision::f32, Precision::f16}) {
      const Shard shard = scores_of({2, 8, 9}, dtype, false);
      auto executor = Executor::create(shard, WeightTable{}, {.precision = precision});
      ASSERT_TRUE(executor);
      std::vector<Tensor> inputs = seeded_inputs(shard, 7);
      inputs[0].data[0] = 0.1F;  // not representable in f16, which would round it
      const std::vector<Tensor> before = inputs;
      ASSERT_TRUE(executor->run(inputs));
      EXPECT_EQ(inputs, before);
    }
}

}  // namespace
}  // namespace moec
