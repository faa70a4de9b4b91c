#include "ir/target/target_rules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph/builder.h"

namespace moec {
namespace {

OpSet ops(std::initializer_list<std::string_view> names) {
  OpSet set;
  for (std::string_view name : names) set |= OpSet::named(name).value();
  return set;
}

Target with_rules(std::vector<TargetRule> rules) {
  Target target;
  target.unit = "npu";
  target.rules = std::move(rules);
  return target;
}

// Lists the ids of the rules that each op breaks; "-" for an op that breaks none.
std::string broken(const Shard& shard, std::vector<TargetRule> rules) {
  const Target target = with_rules(std::move(rules));
  std::vector<std::string> ids(shard.ops.size());
  for (const auto& [op, rule] : find_breaches(target, shard)) ids[op.index] += rule->id;
  std::string text;
  for (const std::string& id : ids) text += (id.empty() ? "-" : id) + " ";
  return text;
}

class Breaches : public testing::Test {
 protected:
  Breaches() {
    Builder b("a", Form::static_ops);
    ValueId x = b.input("x", {DType::f16, {4, 2000}});
    b.state("s", {DType::f16, {4, 2000}});
    b.output("y", b.unary(UnaryFn::exp, x));          // op 0
    b.output("t", b.emit_all(TopK{2, 0}, {x})[0]);    // op 1, i64 indices
    b.output("r", b.reshape(x, {1, 1, 4, 2, 1000}));  // op 2
    b.emit_all(StateWrite{"s"}, {x});                 // op 3
    shard_ = b.finish();
  }

  std::string broken(std::vector<TargetRule> rules) {
    return moec::broken(shard_, std::move(rules));
  }

  Shard shard_;
};

TEST_F(Breaches, ReturnsNoneWithoutRules) { EXPECT_EQ(broken({}), "- - - - "); }

TEST_F(Breaches, MatchesOpsByMnemonicOrKind) {
  EXPECT_EQ(broken({{"A", RuleCondition::op_is, ops({"exp", "topk"})}}), "A A - - ");
  EXPECT_EQ(broken({{"A", RuleCondition::op_is, ops({"unary", "state_write"})}}), "A - - A ");
  EXPECT_EQ(broken({{"A", RuleCondition::op_is, ops({"log"})}}), "- - - - ");
}

TEST_F(Breaches, MatchesTypesOfOperandsAndResults) {
  EXPECT_EQ(
      broken(
          {{.id = "A", .condition = RuleCondition::dtype_is, .dtypes = {DType::i64, DType::f32}}}),
      "- A - - ");
  EXPECT_EQ(broken({{.id = "A", .condition = RuleCondition::rank_above, .limit = 4}}), "- - A - ");
  EXPECT_EQ(broken({{.id = "A", .condition = RuleCondition::rank_above, .limit = 5}}), "- - - - ");
  EXPECT_EQ(broken({{.id = "A", .condition = RuleCondition::extent_above, .limit = 1999}}),
            "A A A A ");
  EXPECT_EQ(broken({{.id = "A", .condition = RuleCondition::extent_above, .limit = 2000}}),
            "- - - - ");
}

TEST_F(Breaches, AppliesRulesToTheirOpsOnly) {
  EXPECT_EQ(broken({{.id = "A",
                     .condition = RuleCondition::extent_above,
                     .ops = ops({"unary"}),
                     .limit = 10}}),
            "A - - - ");
}

TEST_F(Breaches, ListsBreachesInRuleOrder) {
  EXPECT_EQ(broken({{.id = "A", .condition = RuleCondition::dtype_is, .dtypes = {DType::i64}},
                    {"B", RuleCondition::op_is, ops({"topk", "exp"})}}),
            "B AB - - ");
}

TEST(Axes, CountsFromTheRight) {
  EXPECT_EQ(axis_at(4, 0), Axis::batch);
  EXPECT_EQ(axis_at(4, 3), Axis::width);
  EXPECT_EQ(axis_at(2, 0), Axis::height);
  EXPECT_EQ(axis_at(5, 1), Axis::channels);
  EXPECT_EQ(axis_at(5, 2), Axis::depth);
  EXPECT_EQ(axis_at(1, 0), Axis::channels);
}

TEST(OpRules, LimitsExtentsOfNamedAxes) {
  Builder b("a", Form::static_ops);
  b.output("y", b.unary(UnaryFn::exp, b.input("x", {DType::f16, {1, 70, 5, 60}})));
  const Shard shard = b.finish();
  auto limit = [&](std::vector<Axis> axes, int64_t most) {
    return broken(shard, {{.id = "A",
                           .condition = RuleCondition::extent_above,
                           .axes = std::move(axes),
                           .limit = most}});
  };
  EXPECT_EQ(limit({Axis::channels}, 69), "A ");
  EXPECT_EQ(limit({Axis::channels}, 70), "- ");
  EXPECT_EQ(limit({Axis::height, Axis::width}, 60), "- ");
  EXPECT_EQ(limit({Axis::height, Axis::width}, 59), "A ");
}

TEST(OpRules, FlagsOperandsConstantsAndAxes) {
  Builder b("a", Form::static_ops);
  ValueId x = b.input("x", {DType::f16, {1, 4, 1, 8}});
  ValueId wide = b.concat({x, x, x}, 3);                             // op 0
  ValueId late = b.slice(wide, 3, 8, 8);                             // op 1
  ValueId early = b.slice(wide, 3, 0, 8);                            // op 2
  ValueId soft = b.softmax(b.add(late, early), 1);                   // ops 3, 4
  ValueId low = b.constant({DType::f16, {}}, {-INFINITY});           // op 5
  b.output("y", b.add(soft, b.add(low, b.scalar_like(x, -70000))));  // ops 6 to 8
  const Shard shard = b.finish();
  EXPECT_EQ(broken(shard, {{.id = "A", .condition = RuleCondition::operands_above, .limit = 2}}),
            "A - - - - - - - - ");
  EXPECT_EQ(
      broken(shard, {{.id = "A", .condition = RuleCondition::slice_offset, .axes = {Axis::width}}}),
      "- A - - - - - - - ");
  EXPECT_EQ(
      broken(shard,
             {{.id = "A", .condition = RuleCondition::slice_offset, .axes = {Axis::channels}}}),
      "- - - - - - - - - ");
  EXPECT_EQ(broken(shard, {{.id = "A",
                            .condition = RuleCondition::axis_is,
                            .ops = ops({"softmax"}),
                            .axes = {Axis::channels}}}),
            "- - - - A - - - - ");
  EXPECT_EQ(
      broken(shard, {{.id = "A", .condition = RuleCondition::constant_beyond, .limit = 65504}}),
      "- - - - - A A - - ");
}

TEST(OpRules, FlagsSmallMatmulsAndMebibyteConvs) {
  Builder b("a", Form::static_ops);
  ValueId x = b.input("x", {DType::f16, {4, 4}});
  ValueId y = b.input("y", {DType::f16, {4, 5}});
  ValueId on = b.input("on", token_type(DType::f16, Layout::channels, 4096, 1));
  ValueId off = b.input("off", token_type(DType::f16, Layout::channels, 3072, 1));
  auto weight = [&](int64_t in) { return b.weight(splat_view(1, {DType::f16, {2048, in, 1, 1}})); };
  b.output("small", b.matmul(x, x));                       // op 0
  b.output("wide", b.matmul(x, y));                        // op 1
  b.output("slow", b.emit(Conv{}, {on, weight(4096)}));    // ops 2, 3
  b.output("quick", b.emit(Conv{}, {off, weight(3072)}));  // ops 4, 5
  const Shard shard = b.finish();
  EXPECT_EQ(broken(shard, {{.id = "A", .condition = RuleCondition::matmul_within, .limit = 4}}),
            "A - - - - - ");
  EXPECT_EQ(
      broken(shard, {{.id = "A", .condition = RuleCondition::payload_near_mib, .limit = 16384}}),
      "- - - A - - ");
}

// The views of a shard that was read back decode codes; the payload is the bytes of codes and
// scales.
TEST(FindBreaches, CountsPayloadsOfTheFile) {
  const Type type{DType::f16, {8192, 1024, 1, 1}};
  const auto shard_with = [&](const Encoding& encoding, bool read_back) {
    Builder b("a", Form::static_ops);
    const ValueId x = b.input("x", token_type(DType::f16, Layout::channels, 1024, 1));
    WeightView view = tensor_view("w", type);
    std::vector<WeightView> parts;
    if (read_back)
      for (const StoredPart& part : stored_parts(encoding, type))
        parts.push_back(tensor_view(std::string(enum_name(part.part)), part.type));
    if (read_back) view = decoded_view(encoding, type, std::move(parts));
    const ValueId w = b.weight(view, "w", read_back ? Encoding{PlainEncoding{}} : encoding);
    b.output("y", b.emit(Conv{}, {x, w}));
    return b.finish();
  };
  const std::vector<TargetRule> rules{
      {.id = "A", .condition = RuleCondition::payload_near_mib, .limit = 4096}};
  EXPECT_EQ(broken(shard_with(PlainEncoding{}, false), rules), "- A ");
  for (const bool read_back : {false, true})
    EXPECT_EQ(broken(shard_with(AffineEncoding{8, {1, 1024, 1, 1}}, read_back), rules), "- - ");
}

TEST(PredictUnits, OverridesWarningsByErrors) {
  Builder b("a", Form::static_ops);
  ValueId x = b.input("x", {DType::f16, {4}});
  ValueId y = b.unary(UnaryFn::exp, x);
  b.output("y", b.add(b.unary(UnaryFn::log, y), y));
  const Shard shard = b.finish();
  const Target target = with_rules(
      {{.id = "stays", .ops = ops({"add"}), .severity = Severity::warning},
       {.id = "slow", .ops = ops({"exp", "log"}), .severity = Severity::warning, .unit = "gpu"},
       {.id = "never", .ops = ops({"log"})}});
  const auto units = predict_units(target, shard);
  EXPECT_EQ(units[OpId{0}].unit, "gpu");
  EXPECT_EQ(units[OpId{0}].rule->id, "slow");
  EXPECT_EQ(units[OpId{1}].unit, kNoUnit);
  EXPECT_EQ(units[OpId{1}].rule->id, "never");
  EXPECT_EQ(units[OpId{2}].unit, "npu");
  EXPECT_EQ(units[OpId{2}].rule, nullptr);
}

class ShardRules : public testing::Test {
 protected:
  ShardRules() {
    Builder b("L00.moe", Form::static_ops);
    b.state("k", {DType::f16, {2}});
    b.state("v", {DType::f16, {2}});
    ValueId x = b.input("x", token_type(DType::f16, Layout::bc1s, 64, 32));
    ValueId w = b.weight(splat_view(1, {DType::f16, {64, 64, 1, 1}}));  // 8192 bytes
    b.output("y", b.emit(Conv{}, {x, w}));
    shard_ = b.finish();
  }

  bool breaks(TargetRule rule, const ShardFacts& facts = {}) {
    const Target target = with_rules({std::move(rule)});
    return !find_shard_breaches(target, shard_, facts).empty();
  }

  Shard shard_;
};

TEST_F(ShardRules, LimitsWeightBytesOfGivenKinds) {
  TargetRule rule{.id = "W", .condition = RuleCondition::weight_bytes_above, .limit = 8191};
  EXPECT_TRUE(breaks(rule));
  rule.kinds = {ShardKind::moe};
  EXPECT_FALSE(breaks(rule));
  EXPECT_TRUE(breaks(rule, {.kind = ShardKind::moe}));
  rule.limit = 8192;
  EXPECT_FALSE(breaks(rule, {.kind = ShardKind::moe}));
  rule.condition = RuleCondition::weight_bytes_below;
  EXPECT_FALSE(breaks(rule, {.kind = ShardKind::moe}));
  rule.limit = 8193;
  EXPECT_TRUE(breaks(rule, {.kind = ShardKind::moe}));
}

TEST_F(ShardRules, LimitsStatesPortsAndWidths) {
  EXPECT_TRUE(breaks({.id = "S", .condition = RuleCondition::states_above, .limit = 1}));
  EXPECT_FALSE(breaks({.id = "S", .condition = RuleCondition::states_above, .limit = 2}));
  EXPECT_FALSE(breaks({.id = "S", .condition = RuleCondition::ports_unaligned, .limit = 64}));
  EXPECT_TRUE(breaks({.id = "S", .condition = RuleCondition::ports_unaligned, .limit = 128}));
  const TargetRule ranged{.id = "S", .condition = RuleCondition::widths_ranged};
  EXPECT_FALSE(breaks(ranged));
  EXPECT_TRUE(breaks(ranged, {.ranged = true}));
  const TargetRule functions{.id = "S", .condition = RuleCondition::state_functions};
  EXPECT_TRUE(breaks(functions, {.tokens = 2, .functions = 2}));
  EXPECT_FALSE(breaks(functions, {.tokens = 1, .functions = 2}));
  EXPECT_FALSE(breaks(functions, {.tokens = 2, .functions = 1}));
}

}  // namespace
}  // namespace moec
