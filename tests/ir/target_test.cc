#include "ir/target.h"

#include <gtest/gtest.h>

#include "ir/builder.h"

namespace moec {
namespace {

class BrokenRule : public testing::Test {
 protected:
  BrokenRule() {
    Builder b("a", Form::static_ops);
    ValueId x = b.input("x", {DType::f16, {4, 2000}});
    b.state("s", {DType::f16, {4, 2000}});
    b.output("y", b.unary(UnaryFn::exp, x));          // op 0
    b.output("t", b.emit_all(TopK{2, 0}, {x})[0]);    // op 1, i64 indices
    b.output("r", b.reshape(x, {1, 1, 4, 2, 1000}));  // op 2
    b.emit_all(StateWrite{"s"}, {x});                 // op 3
    shard_ = b.finish();
  }

  // The ids of the broken rule for each op, "-" for none.
  std::string broken(std::vector<TargetRule> rules) {
    Target target;
    target.rules = std::move(rules);
    std::string ids;
    for (OpId op : op_ids(shard_)) {
      const TargetRule* rule = broken_rule(target, shard_, op);
      ids += (rule ? rule->id : "-") + " ";
    }
    return ids;
  }

  Shard shard_;
};

TEST_F(BrokenRule, NoRulesBreakNothing) { EXPECT_EQ(broken({}), "- - - - "); }

TEST_F(BrokenRule, ByMnemonicOrKind) {
  EXPECT_EQ(broken({{"A", RuleCondition::op_is, {"exp", "topk"}}}), "A A - - ");
  EXPECT_EQ(broken({{"A", RuleCondition::op_is, {"unary", "state_write"}}}), "A - - A ");
}

TEST_F(BrokenRule, ByTypeOfAResult) {
  EXPECT_EQ(broken({{"A", RuleCondition::dtype_is, {"i64", "f32"}}}), "- A - - ");
  EXPECT_EQ(broken({{"A", RuleCondition::rank_above, {}, 4}}), "- - A - ");
  EXPECT_EQ(broken({{"A", RuleCondition::rank_above, {}, 5}}), "- - - - ");
  EXPECT_EQ(broken({{"A", RuleCondition::extent_above, {}, 1999}}), "A A - - ");
  EXPECT_EQ(broken({{"A", RuleCondition::extent_above, {}, 2000}}), "- - - - ");
}

TEST_F(BrokenRule, TheFirstRuleInOrderIsNamed) {
  EXPECT_EQ(broken({{"A", RuleCondition::dtype_is, {"i64"}},
                    {"B", RuleCondition::op_is, {"topk", "exp"}}}),
            "B A - - ");
}

}  // namespace
}  // namespace moec
