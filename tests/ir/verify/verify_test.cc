// Errors that the text form cannot express; tests/ir/verify/*.ir cover all other errors.
#include "ir/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/builder.h"
#include "ir/text/text.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A valid shard: x -> exp -> y.
Shard small_shard() {
  Builder b("a", Form::static_ops);
  ValueId x = b.input("x", {DType::f32, {2}});
  b.output("y", b.unary(UnaryFn::exp, x, "e"));
  return b.finish();
}

// Formats each finding as "code label".
std::vector<std::string> found(const Shard& shard) {
  std::vector<std::string> all;
  for (const Diagnostic& finding : verify(shard)) {
    EXPECT_EQ(finding.place.shard, shard.name);
    EXPECT_EQ(finding.severity, Severity::error);
    all.push_back(finding.code + " " + finding.place.op);
  }
  return all;
}

TEST(Verify, AcceptsAValidShard) { EXPECT_THAT(found(small_shard()), IsEmpty()); }

TEST(Verify, FindsOperandsOutOfRange) {
  Shard shard = small_shard();
  shard.ops[OpId{0}].operands = {ValueId{9}};
  EXPECT_THAT(found(shard), ElementsAre("shard.s1 e"));
  EXPECT_EQ(verify(shard)[0].cause, "value id 9 is out of range");
}

TEST(Verify, FindsUsesBeforeTheDefinition) {
  Shard shard = small_shard();
  shard.ops[OpId{0}].operands = {ValueId{1}};
  EXPECT_THAT(found(shard), ElementsAre("shard.s1 e"));
  EXPECT_EQ(verify(shard)[0].cause, "value %e is used before it is defined");
}

TEST(Verify, FindsOutputsOutOfRange) {
  Shard shard = small_shard();
  shard.outputs[0].value = ValueId{};
  EXPECT_THAT(found(shard), ElementsAre("shard.s1 output y"));
}

TEST(Verify, FindsResultsOutOfRange) {
  Shard shard = small_shard();
  shard.ops[OpId{0}].results = {ValueId{5}};
  EXPECT_THAT(found(shard), ElementsAre("shard.s1 ?5", "shard.s1 output y", "shard.s2 ?5"));
}

TEST(Verify, FindsWrongProducers) {
  Shard shard = small_shard();
  shard.values[ValueId{1}].producer = OpId{};
  EXPECT_THAT(found(shard), ElementsAre("shard.s2 e"));
  shard = small_shard();
  shard.values[ValueId{0}].producer = OpId{0};
  EXPECT_THAT(found(shard), ElementsAre("shard.s2 "));
}

TEST(Verify, FindsValuesWithoutADefinition) {
  Shard shard = small_shard();
  shard.values.push({{DType::f32, {2}}, "stray", OpId{}});
  EXPECT_THAT(found(shard), ElementsAre("shard.s2 "));
  EXPECT_EQ(verify(shard)[0].cause, "the shard stores 3 values but defines 2");
}

TEST(Verify, FindsUnorderedValueIds) {
  Builder b("a", Form::static_ops);
  ValueId x = b.input("x", {DType::f32, {2}});
  ValueId e = b.unary(UnaryFn::exp, x);
  ValueId f = b.unary(UnaryFn::neg, e);
  Shard shard = b.finish();
  std::swap(shard.ops[OpId{0}].results[0], shard.ops[OpId{1}].results[0]);
  shard.ops[OpId{1}].operands = {x};
  std::swap(shard.values[e].producer, shard.values[f].producer);
  EXPECT_THAT(found(shard), ElementsAre("shard.s2 2", "shard.s2 1"));
}

TEST(Verify, RejectsNamesThatTextCannotExpress) {
  Shard shard = small_shard();
  shard.name = "a b";
  shard.values[ValueId{1}].name = "12";
  shard.outputs[0].name = "";
  EXPECT_THAT(found(shard), ElementsAre("shard.s3 ", "shard.s3 12", "shard.s3 output "));
  shard = small_shard();
  shard.values[ValueId{0}].name = "e";
  EXPECT_THAT(found(shard), ElementsAre("shard.s3 e"));
  EXPECT_EQ(verify(shard)[0].cause, "two values are named e");
}

TEST(Verify, CollectsAllFindings) {
  Shard shard = small_shard();
  shard.form = Form::placed;
  shard.values[ValueId{1}].type.dims = {3};
  shard.outputs.push_back(shard.outputs[0]);
  shard.ops.push({StateWrite{"nowhere"}, {ValueId{0}}, {}});
  EXPECT_THAT(found(shard), ElementsAre("shard.s3 output y", "shard.s5 e", "state_write.c2 #1"));
  EXPECT_EQ(print_with_findings(shard, verify(shard)), R"(shard a placed {
  input %x : f32[2]
  %e = exp %x : f32[3]
  // ^ error[shard.s5]: exp has type f32[2], the shard stores f32[3]
  state_write %x {state = "nowhere"}
  // ^ error[state_write.c2]: state_write: no state named "nowhere" is declared
  output y = %e
  // ^ error[shard.s3]: two outputs are named y
  output y = %e
}
)");
}

TEST(Verify, FindsExtraResults) {
  Shard shard = small_shard();
  ValueId extra = shard.values.push({{DType::f32, {2}}, "", OpId{0}});
  shard.ops[OpId{0}].results.push_back(extra);
  EXPECT_THAT(found(shard), ElementsAre("shard.s5 e"));
}

// Text cannot express NaN, and a shard with a NaN would not equal itself.
TEST(Verify, RejectsNanInConstantsAndSplats) {
  Builder b("a", Form::static_ops);
  b.output("y", b.constant({DType::f32, {1}}, {0}, "c"));
  b.output("z", b.weight(splat_view(0, {DType::f32, {1}}), "w"));
  Shard shard = b.finish();
  std::get<Constant>(shard.ops[OpId{0}].data).values = {std::nan("")};
  std::get<Weight>(shard.ops[OpId{1}].data).view = splat_view(std::nan(""), {DType::f32, {1}});
  EXPECT_THAT(found(shard), ElementsAre("constant.c4 c", "weight.c2 w"));
}

}  // namespace
}  // namespace moec
