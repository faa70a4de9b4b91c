#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

Shard static_shard() {
  Builder b("L00.moe", Form::static_ops);
  ValueId x = b.input("x", token_type(DType::f32, Layout::rows, 5, 2));
  ValueId top = b.emit_all(TopK{2, 1}, {x}, "top")[0];
  b.output("y", b.unary(UnaryFn::exp, top, "y"));
  return b.finish();
}

Target target_with(std::vector<TargetRule> rules) {
  return {.name = "somewhere", .unit = "npu", .rules = std::move(rules)};
}

TargetRule no_topk(Severity severity) {
  return {.id = "O7",
          .condition = RuleCondition::op_is,
          .ops = *OpSet::named("topk"),
          .severity = severity,
          .unit = "cpu",
          .reason = "the unit cannot sort",
          .confidence = "measured",
          .source = "a test"};
}

TEST(Place, AcceptsShardsWithinTheRules) {
  PassContext context{{.target = target_with({})}, {}};
  const Shard placed = run_passes(static_shard(), "place", context);
  EXPECT_EQ(placed.form, Form::placed);
  EXPECT_TRUE(context.notes.empty());
}

TEST(Place, NamesTheRuleAndItsReason) {
  PassContext context{{.target = target_with({no_topk(Severity::error)})}, {}};
  auto placed = place(static_shard(), context);
  ASSERT_FALSE(placed.has_value());
  ASSERT_EQ(placed.error().size(), 1u);
  const Diagnostic& refusal = placed.error()[0];
  EXPECT_EQ(refusal.code, "target.O7");
  EXPECT_EQ(refusal.cause,
            "rule O7 of target somewhere applies to topk: the unit cannot sort (cpu would run it)");
  EXPECT_EQ(refusal.place.shard, "L00.moe");
  EXPECT_EQ(refusal.place.op, "top");
}

TEST(Place, LeavesWarningsInTheContext) {
  PassContext context{{.target = target_with({no_topk(Severity::warning)})}, {}};
  EXPECT_EQ(run_passes(static_shard(), "place", context).form, Form::placed);
  ASSERT_EQ(context.notes.size(), 1u);
  EXPECT_EQ(context.notes[0].code, "target.O7");
  EXPECT_EQ(context.notes[0].severity, Severity::warning);
}

TEST(Place, WarnsOncePerRule) {
  TargetRule rule = no_topk(Severity::warning);
  rule.ops |= *OpSet::named("exp");
  PassContext context{{.target = target_with({rule})}, {}};
  run_passes(static_shard(), "place", context);
  ASSERT_EQ(context.notes.size(), 1u);
  EXPECT_EQ(context.notes[0].cause,
            "rule O7 of target somewhere applies to 2 ops (exp, topk): the unit cannot sort (cpu "
            "would run it)");
}

TEST(Place, ReportsAllBreachesAtOnce) {
  TargetRule no_exp = no_topk(Severity::error);
  no_exp.ops = *OpSet::named("exp");
  PassContext context{{.target = target_with({no_topk(Severity::error), no_exp})}, {}};
  auto placed = place(static_shard(), context);
  ASSERT_FALSE(placed.has_value());
  EXPECT_EQ(placed.error().size(), 2u);
}

TEST(Place, RejectsStateWithoutTargetSupport) {
  Builder b("attn", Form::static_ops);
  b.state("k_state", {DType::f32, {2}});
  ValueId x = b.input("x", {DType::f32, {2}});
  b.emit_all(StateWrite{"k_state"}, {x});
  b.output("y", x);
  const Shard shard = b.finish();
  for (bool has_state : {false, true}) {
    PassContext context{{.target = {.name = "somewhere", .has_state = has_state}}, {}};
    auto placed = place(shard, context);
    EXPECT_EQ(placed.has_value(), has_state);
    if (!placed) {
      EXPECT_TRUE(has_code(placed.error(), "place.state"));
    }
  }
}

}  // namespace
}  // namespace moec
