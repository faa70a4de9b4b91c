// Tests what the executor does apart from the ops: weights, rounding, states, probes, errors.
#include <cmath>
#include <limits>
#include <map>

#include "ir/graph/scalar.h"
#include "tests/backends/reference/testing.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

using testing::ElementsAre;

// out = (x + w) · 2; w comes from a view.
Shard sum_with_weight(const WeightView& view, DType dtype = DType::f32) {
  Builder build("L00.test", Form::model);
  const ValueId x = build.input("x", {dtype, {3}});
  const ValueId w = build.weight(view, "w");
  const ValueId sum = build.add(x, w, "sum");
  build.output("out", build.mul(sum, build.scalar_like(sum, 2), "doubled"));
  return build.finish();
}

TEST(ReferenceExecutor, LoadsWeightsFromFiles) {
  const std::string path = write_file("executor.bin", bytes_of<float>({1, 2, 3, 4, 5, 6}));
  const Type type{DType::f32, {2, 3}};
  const WeightView row = then(then(tensor_view("w", type), SliceStep{0, 1, 1}), ReshapeStep{{3}});
  auto executor = Executor::create(sum_with_weight(row), table_of(path, 24, type));
  ASSERT_TRUE(executor) << render(executor.error());
  for (int run = 0; run < 3; ++run) {
    auto out = executor->run({plain({3}, {10, 20, 30})});
    ASSERT_TRUE(out);
    EXPECT_THAT((*out)[0].data, ElementsAre(28, 50, 72));
  }
}

// The palette has two entries: the means of the values near 1 and near 5.
TEST(ReferenceExecutor, DecodesEncodedWeights) {
  const std::string path = write_file("encoded_weight.bin", bytes_of<float>({1, 5, 1.5, 5.5}));
  const Type type{DType::f32, {4}};
  Builder build("L00.test", Form::model);
  const ValueId x = build.input("x", type);
  const ValueId w = build.weight(tensor_view("w", type), "w", PaletteEncoding{1, {4}});
  build.output("out", build.add(x, w, "sum"));
  auto executor = Executor::create(build.finish(), table_of(path, 16, type));
  ASSERT_TRUE(executor) << render(executor.error());
  const auto out = executor->run({plain({4}, {0, 0, 10, 10})});
  ASSERT_TRUE(out);
  EXPECT_THAT((*out)[0].data, ElementsAre(1.25, 5.25, 11.25, 15.25));
}

TEST(ReferenceExecutor, NamesAMissingWeight) {
  auto executor =
      Executor::create(sum_with_weight(tensor_view("w", {DType::f32, {3}})), WeightTable{});
  ASSERT_FALSE(executor);
  EXPECT_EQ(code_of(executor.error()), "weights.unknown_tensor");
  EXPECT_EQ(executor.error()[0].place.tensor, "w");
  EXPECT_EQ(executor.error()[0].place.shard, "L00.test");
  EXPECT_EQ(executor.error()[0].place.op, "w");
}

std::string run_error(const std::vector<Tensor>& inputs) {
  auto out = evaluate(sum_with_weight(splat_view(1, {DType::f32, {3}})), inputs);
  return out ? "" : code_of(out.error());
}

TEST(ReferenceExecutor, RejectsMismatchedInputs) {
  EXPECT_EQ(run_error({plain({3}, {1, 2, 3})}), "");
  EXPECT_EQ(run_error({}), "reference.input_count");
  EXPECT_EQ(run_error({plain({3}, {1, 2, 3}), plain({3}, {1, 2, 3})}), "reference.input_count");
  EXPECT_EQ(run_error({plain({1, 3}, {1, 2, 3})}), "reference.input_type");
  EXPECT_EQ(run_error({plain({3}, {1, 2, 3}, DType::f16)}), "reference.input_type");
  EXPECT_EQ(run_error({plain({3}, {1, 2})}), "reference.input_type");
  auto out =
      evaluate(sum_with_weight(splat_view(1, {DType::f32, {3}})), {plain({4}, {1, 2, 3, 4})});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error()[0].cause, "the input is f32[3], got f32[4] with 4 elements");
  EXPECT_EQ(out.error()[0].place.op, "x");
}

TEST(ReferenceExecutor, RejectsShardsAboveTheMemoryLimit) {
  const Shard shard = sum_with_weight(splat_view(1, {DType::f32, {3}}));
  auto reader = WeightReader::open({});
  ASSERT_TRUE(reader);
  auto small = Executor::create(shard, *reader, {.memory_limit = 12});
  ASSERT_FALSE(small);
  EXPECT_EQ(code_of(small.error()), "reference.too_large");
  EXPECT_TRUE(Executor::create(shard, *reader, {.memory_limit = 100}));
}

TEST(ReferenceExecutor, RoundsHalfTypesInF32Mode) {
  const Shard shard = sum_with_weight(splat_view(1.0 / 3, {DType::f16, {3}}), DType::f16);
  auto out = evaluate(shard, {plain({3}, {2048, 40000, 0.1f}, DType::f16)});
  ASSERT_TRUE(out);
  const float third = round_to(DType::f16, 1.0f / 3), tenth = round_to(DType::f16, 0.1f);
  EXPECT_THAT((*out)[0].data, ElementsAre(4096, kInf, 2 * round_to(DType::f16, tenth + third)));
}

TEST(ReferenceExecutor, RoundsAfterOpsInF16Mode) {
  const Shard shard = sum_with_weight(splat_view(1.0 / 3, {DType::f32, {3}}));
  const std::vector<Tensor> inputs = {plain({3}, {2048, 0.1f, 30000})};
  auto exact = evaluate(shard, inputs), half = evaluate(shard, inputs, Precision::f16);
  ASSERT_TRUE(exact && half);
  EXPECT_FLOAT_EQ((*exact)[0].data[0], 4096 + 2.0f / 3);
  const auto f16 = [](float x) { return round_to(DType::f16, x); };
  EXPECT_THAT((*half)[0].data, ElementsAre(4096, f16(2 * f16(f16(0.1f) + f16(1.0f / 3))), 60000));
}

TEST(ReferenceExecutor, OverflowsIntermediatesInF16Mode) {
  Builder build("test", Form::model);
  const ValueId x = build.input("x", {DType::f32, {1}});
  const ValueId square = build.mul(x, x);
  build.output("out", build.div(square, x));
  const Shard shard = build.finish();
  EXPECT_EQ(evaluate(shard, {plain({1}, {300})}).value()[0].data[0], 300);
  EXPECT_EQ(evaluate(shard, {plain({1}, {300})}, Precision::f16).value()[0].data[0], kInf);
}

TEST(ReferenceExecutor, KeepsIntegersExactInF16Mode) {
  Builder build("test", Form::model);
  const ValueId x = build.input("x", {DType::i64, {2}});
  build.output("out", x);
  EXPECT_THAT(evaluate(build.finish(), {plain({2}, {2049, 4097}, DType::i64)}, Precision::f16)
                  .value()[0]
                  .data,
              ElementsAre(2049, 4097));
}

TEST(ReferenceExecutor, ProbesEachValueOnceInOrder) {
  auto reader = WeightReader::open({});
  auto executor = Executor::create(sum_with_weight(splat_view(1, {DType::f32, {3}})), *reader);
  ASSERT_TRUE(executor);
  std::vector<std::string> labels;
  std::map<std::string, std::vector<float>> seen;
  auto out = executor->run({plain({3}, {1, 2, 3})}, [&](std::string_view label, const Tensor& v) {
    labels.emplace_back(label);
    seen[std::string(label)] = v.data;
  });
  ASSERT_TRUE(out);
  EXPECT_THAT(labels, ElementsAre("x", "w", "sum", "3", "doubled"));
  EXPECT_THAT(seen["w"], ElementsAre(1, 1, 1));
  EXPECT_THAT(seen["sum"], ElementsAre(2, 3, 4));
  EXPECT_THAT(seen["3"], ElementsAre(2));
  EXPECT_EQ(seen["doubled"], (*out)[0].data);
}

TEST(ReferenceExecutor, AllowsOutputsToAliasOtherValues) {
  Builder build("test", Form::model);
  const ValueId x = build.input("x", {DType::f32, {1}});
  const ValueId w = build.weight(splat_view(7, {DType::f32, {1}}));
  const ValueId sum = build.add(x, w);
  build.output("x", x);
  build.output("w", w);
  build.output("a", sum);
  build.output("b", sum);
  auto out = evaluate(build.finish(), {plain({1}, {1})});
  ASSERT_TRUE(out);
  std::vector<float> values;
  for (const Tensor& tensor : *out) values.push_back(tensor.data[0]);
  EXPECT_THAT(values, ElementsAre(1, 7, 8, 8));
}

// total' = total + x; the output is the old total, because writes take effect after the run.
Shard accumulator() {
  Builder build("test", Form::model);
  const ValueId x = build.input("x", {DType::f32, {2}});
  build.state("total", {DType::f32, {2}});
  const ValueId total = build.emit(StateRead{"total"}, {});
  build.emit_all(StateWrite{"total"}, {build.add(total, x)});
  build.output("before", total);
  return build.finish();
}

TEST(ReferenceExecutor, KeepsStatesBetweenRuns) {
  auto executor = Executor::create(accumulator(), WeightTable{});
  ASSERT_TRUE(executor);
  const std::vector<Tensor> inputs = {plain({2}, {1, 10})};
  EXPECT_THAT(executor->run(inputs).value()[0].data, ElementsAre(0, 0));
  EXPECT_THAT(executor->run(inputs).value()[0].data, ElementsAre(1, 10));
  EXPECT_THAT(executor->state("total")->data, ElementsAre(2, 20));
  executor->reset();
  EXPECT_THAT(executor->run(inputs).value()[0].data, ElementsAre(0, 0));
  ASSERT_TRUE(executor->set_state("total", plain({2}, {5, 6})));
  EXPECT_THAT(executor->run(inputs).value()[0].data, ElementsAre(5, 6));
}

TEST(ReferenceExecutor, RejectsUnknownAndMistypedStates) {
  auto executor = Executor::create(accumulator(), WeightTable{});
  ASSERT_TRUE(executor);
  EXPECT_EQ(executor->state("other"), nullptr);
  EXPECT_EQ(code_of(executor->set_state("other", plain({2}, {1, 2})).error()),
            "reference.unknown_state");
  EXPECT_EQ(code_of(executor->set_state("total", plain({1}, {1})).error()), "reference.state_type");
}

TEST(ReferenceSeededInputs, DependOnlyOnSeedAndShard) {
  Builder build("test", Form::model);
  build.input("x", {DType::f16, {4, 8}});
  build.input("attn_mask", {DType::f32, {1, 1, 2, 4}});
  build.input("kv_write_mask", {DType::f32, {1, 1, 4, 2}});
  build.input("routing_weights", {DType::f32, {8, 8}});
  build.input("flags", {DType::boolean, {16}});
  build.input("ids", {DType::i64, {16}});
  const Shard shard = build.finish();
  const std::vector<Tensor> inputs = seeded_inputs(shard, 1);
  EXPECT_EQ(inputs, seeded_inputs(shard, 1));
  EXPECT_NE(inputs[0].data, seeded_inputs(shard, 2)[0].data);
  for (float value : inputs[0].data) EXPECT_EQ(value, round_to(DType::f16, value));
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  EXPECT_THAT(inputs[1].data, ElementsAre(0, 0, 0, kLowest, 0, 0, 0, 0));
  for (size_t t = 0; t < 2; ++t) {
    float writes = 0;
    for (size_t s = 0; s < 4; ++s) writes += inputs[2].data[s * 2 + t];
    EXPECT_EQ(writes, 1);
  }
  const auto count = [](const Tensor& tensor, auto condition) {
    return std::count_if(tensor.data.begin(), tensor.data.end(), condition);
  };
  EXPECT_GT(count(inputs[3], [](float v) { return v == 0; }), 16);
  EXPECT_GT(count(inputs[3], [](float v) { return v > 0; }), 16);
  EXPECT_EQ(count(inputs[4], [](float v) { return v == 0 || v == 1; }), 16);
  EXPECT_EQ(count(inputs[5], [](float v) { return v >= 0 && v < 8 && v == std::floor(v); }), 16);
}

}  // namespace
}  // namespace moec
