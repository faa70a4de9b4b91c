#include "ir/graph/rewriter.h"

#include <gtest/gtest.h>

#include "ir/verify/verify.h"
#include "tests/ir/parsed_shard.h"
#include "tests/ir/random_shard.h"

namespace moec {
namespace {

const char* const kSample = R"(shard a static {
  input %x : f32[4]
  state s : f32[4]
  %e = exp %x : f32[4]
  %2 = neg %e : f32[4]
  state_write %2 {state = "s"}
  output y = %e
  output z = %2
}
)";

TEST(Rewriter, CopiesAllOpsUnchanged) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Shard shard = RandomShard(seed).make();
    Rewriter rewriter(shard);
    for (OpId op : op_ids(shard)) rewriter.copy(op);
    ASSERT_EQ(rewriter.finish(), shard) << print(shard);
  }
}

TEST(Rewriter, InfersTypesIfOperandsChange) {
  const Shard shard = parsed(R"(shard a static {
  input %x : f32[4]
  %e = exp %x : f32[4]
  %n = neg %e : f32[4]
  output y = %n
}
)");
  Rewriter rewriter(shard);
  rewriter.replace(OpId{0}, {rewriter.build().cast(rewriter(ValueId{0}), DType::f16)});
  rewriter.copy(OpId{1});
  const Shard result = rewriter.finish();
  EXPECT_EQ(render(verify(result)), "");
  EXPECT_EQ(to_string(result.type(result.outputs[0].value)), "f16[4]");
}

TEST(Rewriter, NamesReplacementsAfterTheReplacedValue) {
  const Shard shard = parsed(kSample);
  Rewriter rewriter(shard);
  for (OpId op : op_ids(shard)) {
    if (!std::holds_alternative<Unary>(shard.ops[op].data)) {
      rewriter.copy(op);
      continue;
    }
    const ValueId x = rewriter(shard.ops[op].operands[0]);
    rewriter.replace(op, {rewriter.build().add(x, x)});
  }
  const Shard result = rewriter.finish();
  EXPECT_EQ(render(verify(result)), "");
  EXPECT_EQ(print(result), R"(shard a static {
  input %x : f32[4]
  state s : f32[4]
  %e = add %x, %x : f32[4]
  %2 = add %e, %e : f32[4]
  state_write %2 {state = "s"}
  output y = %e
  output z = %2
}
)");
}

TEST(Rewriter, AcceptsExistingValuesAsReplacements) {
  const Shard shard = parsed(kSample);
  Rewriter rewriter(shard);
  rewriter.copy(OpId{0});
  rewriter.replace(OpId{1}, {rewriter(ValueId{1})});
  rewriter.copy(OpId{2});
  const Shard result = rewriter.finish();
  EXPECT_EQ(render(verify(result)), "");
  EXPECT_EQ(result.ops.size(), 2u);
  EXPECT_EQ(result.outputs[0].value, result.outputs[1].value);
}

TEST(Rewriter, CopiesWithNewAttributesAndOperands) {
  const Shard shard = parsed(kSample);
  Rewriter rewriter(shard);
  rewriter.copy_as(OpId{0}, Unary{UnaryFn::tanh}, {rewriter(ValueId{0})});
  rewriter.copy_as(OpId{1}, Reduce{ReduceFn::max, 0}, {rewriter(ValueId{1})});
  const ValueId wide = rewriter.build().concat(std::vector<ValueId>(4, rewriter(ValueId{2})), 0);
  rewriter.copy_as(OpId{2}, StateWrite{"s"}, {wide});
  const Shard result = rewriter.finish();
  EXPECT_EQ(render(verify(result)), "");
  EXPECT_EQ(to_string(result.type(result.outputs[1].value)), "f32[1]");
}

TEST(Rewriter, PrefixesNamesWithScopes) {
  const Shard shard = parsed(kSample);
  Rewriter rewriter(shard);
  EXPECT_EQ(rewriter.scope_name(OpId{0}), "e");
  EXPECT_EQ(rewriter.scope_name(OpId{1}), "op1");
  EXPECT_EQ(rewriter.scope_name(OpId{2}), "op2");
}

TEST(RewriterDeathTest, RejectsUsesOfDroppedValues) {
  const Shard shard = parsed(kSample);
  Rewriter rewriter(shard);
  EXPECT_EXIT(rewriter.copy(OpId{1}), testing::ExitedWithCode(3),
              "value e of shard a was neither copied nor replaced");
}

}  // namespace
}  // namespace moec
