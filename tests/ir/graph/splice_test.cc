#include <gtest/gtest.h>

#include "ir/graph/builder.h"
#include "ir/verify/verify.h"
#include "tests/ir/parsed_shard.h"

namespace moec {
namespace {

const char* const kPart = R"(shard part static {
  input %x : f32[4]
  input %y : f32[4]
  %sum = add %x, %y : f32[4]
  %3 = neg %sum : f32[4]
  output a = %3
  output b = %x
}
)";

TEST(Splice, SharesInputsAndPrefixesNames) {
  const Shard part = parsed(kPart);
  Builder b("whole", Form::static_ops);
  const ValueId x = b.input("x", {DType::f32, {4}}), y = b.input("y", {DType::f32, {4}});
  const std::vector<ValueId> first = splice(b, part, {x, y}, "L00");
  const std::vector<ValueId> second = splice(b, part, {first[0], y}, "L01");
  b.output("a", second[0]);
  b.output("b", second[1]);
  const Shard whole = b.finish();
  EXPECT_EQ(render(verify(whole)), "");
  EXPECT_EQ(print(whole), R"(shard whole static {
  input %x : f32[4]
  input %y : f32[4]
  %L00.sum = add %x, %y : f32[4]
  %3 = neg %L00.sum : f32[4]
  %L01.sum = add %3, %y : f32[4]
  %5 = neg %L01.sum : f32[4]
  output a = %5
  output b = %3
}
)");
}

TEST(Splice, KeepsTheNameOfEachResult) {
  Builder inner("part", Form::model);
  const Dims dims{1, 4, 2, 1};
  const ValueId x = inner.input("x", {DType::f32, dims, Layout::channels});
  const ValueId mask = inner.input("mask", {DType::f32, {1, 1, 2, 5}});
  const ValueId cache = inner.input("cache", {DType::f32, {1, 1, 3, 4}});
  const Attention attention{.heads = 1,
                            .kv_heads = 1,
                            .head_dim = 4,
                            .scale = 1,
                            .rope = RopeStyle::none,
                            .cache = CacheForm::append};
  const std::vector<ValueId> results =
      inner.emit_all(attention, {x, x, x, mask, cache, cache}, "attention");
  inner.name_if_unnamed(results[1], "k_new");
  for (ValueId result : results) inner.output("out", result);
  const Shard part = inner.finish();

  Builder b("whole", Form::model);
  std::vector<ValueId> inputs;
  for (ValueId input : part.inputs) inputs.push_back(b.input(part.label(input), part.type(input)));
  const std::vector<ValueId> outputs = splice(b, part, inputs, "L07");
  const Shard whole = b.finish();
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(whole.values[outputs[0]].name, "L07.attention");
  EXPECT_EQ(whole.values[outputs[1]].name, "L07.k_new");
  EXPECT_EQ(whole.values[outputs[2]].name, "");
}

TEST(SpliceDeathTest, RejectsInputsOfAnotherType) {
  const Shard part = parsed(kPart);
  Builder b("whole", Form::static_ops);
  const ValueId x = b.input("x", {DType::f32, {4}}), y = b.input("y", {DType::f32, {1}});
  EXPECT_EXIT(splice(b, part, {x, y}, "L00"), testing::ExitedWithCode(3),
              "input y of shard part got another type");
  EXPECT_EXIT(splice(b, part, {x}, "L00"), testing::ExitedWithCode(3),
              "shard part has 2 inputs, 1 were given");
}

}  // namespace
}  // namespace moec
