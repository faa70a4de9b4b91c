// Each rule of targets/ane.json has one shard that breaks it and one that keeps it. A new rule
// without such a pair fails these tests.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "backends/targets/load_target.h"
#include "ir/graph/builder.h"
#include "ir/target/target_rules.h"

namespace moec {
namespace {

struct Sample {
  Shard shard;
  ShardFacts facts = {};
};

// Builds a sample that breaks the rule if `breaks`, and keeps it otherwise.
using MakeSample = std::function<Sample(bool breaks)>;

Type f16(Dims dims) { return {DType::f16, std::move(dims)}; }

// A sample whose output is `make` applied to an input of the type.
Sample apply_to(Type type, const std::function<ValueId(Builder&, ValueId)>& make) {
  Builder b("L00.moe", Form::static_ops);
  ValueId x = b.input("x", std::move(type));
  b.output("y", make(b, x));
  return {b.finish()};
}

Sample exp_of(Type type) {
  return apply_to(std::move(type), [](Builder& b, ValueId x) { return b.unary(UnaryFn::exp, x); });
}

Sample with_weight(Type type, ShardKind kind = ShardKind::moe) {
  Builder b("L00.moe", Form::static_ops);
  b.output("y", b.weight(splat_view(1, std::move(type))));
  return {b.finish(), {.kind = kind}};
}

MakeSample bytes_above(int64_t limit, ShardKind kind = ShardKind::attention) {
  return [=](bool breaks) { return with_weight(f16({limit / 2 + (breaks ? 1 : 0)}), kind); };
}

Sample with_states(int count) {
  Builder b("L00.attn", Form::static_ops);
  for (int i = 0; i < count; ++i) b.state("s" + std::to_string(i), f16({1, 1, 4, 4}));
  b.output("y", b.emit(StateRead{"s0"}, {}));
  return {b.finish()};
}

MakeSample extent(size_t axis, int64_t limit) {
  return [=](bool breaks) {
    Dims dims = {1, 1, 1, 1};
    dims[axis] = limit + (breaks ? 1 : 0);
    return exp_of(f16(dims));
  };
}

MakeSample transposed(int64_t limit) {
  return [=](bool breaks) {
    return apply_to(f16({1, limit + (breaks ? 1 : 0), 1, 2}), [](Builder& b, ValueId x) {
      return b.transpose(x, {0, 1, 3, 2});
    });
  };
}

MakeSample unary(UnaryFn broken, UnaryFn kept) {
  return [=](bool breaks) {
    return apply_to(f16({1, 4, 1, 1}),
                    [&](Builder& b, ValueId x) { return b.unary(breaks ? broken : kept, x); });
  };
}

Sample cast_or_exp(bool breaks) {
  return apply_to(f16({1, 4, 1, 1}), [&](Builder& b, ValueId x) {
    return breaks ? b.cast(b.cast(x, DType::f32), DType::f16) : b.unary(UnaryFn::exp, x);
  });
}

Sample top_two(bool breaks) {
  return apply_to(f16({1, 4, 1, 1}), [&](Builder& b, ValueId x) {
    return breaks ? b.emit_all(TopK{2, 1}, {x})[0] : b.slice(x, 1, 0, 2);
  });
}

Sample softmax_along(bool breaks) {
  return apply_to(f16({1, 4, 1, 8}),
                  [&](Builder& b, ValueId x) { return b.softmax(x, breaks ? 3 : 1); });
}

Sample sliced_from(bool breaks) {
  return apply_to(f16({1, 4, 1, 8}),
                  [&](Builder& b, ValueId x) { return b.slice(x, 3, breaks ? 4 : 0, 4); });
}

Sample constant_of(bool breaks) {
  return apply_to(f16({1, 4, 1, 8}), [&](Builder& b, ValueId x) {
    return b.add(x, b.scalar_like(x, breaks ? -65536 : -1e4));
  });
}

Sample matmul_of(bool breaks) {
  const int64_t side = breaks ? 4 : 8;
  return apply_to(f16({side, side}), [](Builder& b, ValueId x) { return b.matmul(x, x); });
}

Sample joined(bool breaks) {
  return apply_to(f16({1, 4, 1, 1}), [&](Builder& b, ValueId x) {
    return b.concat(std::vector<ValueId>(breaks ? 12 : 11, x), 1);
  });
}

Sample on_the_notch(bool breaks) {
  const int64_t inputs = breaks ? 4096 : 3072;
  return apply_to(token_type(DType::f16, Layout::channels, inputs, 1), [&](Builder& b, ValueId x) {
    return b.emit(Conv{}, {x, b.weight(splat_view(1, f16({2048, inputs, 1, 1})))});
  });
}

Sample ranged(bool breaks) {
  Sample sample = exp_of(f16({1, 4, 1, 1}));
  sample.facts.ranged = breaks;
  return sample;
}

Sample functions_of_state(bool breaks) {
  Sample sample = with_states(2);
  sample.facts = {.tokens = breaks ? 16 : 1, .functions = 2};
  return sample;
}

const std::map<std::string, MakeSample>& samples() {
  static const std::map<std::string, MakeSample> all = {
      {"S1",
       [](bool breaks) {
         return exp_of(f16(breaks ? Dims{1, 1, 1, 1, 2} : Dims{1, 1, 1, 2}));
       }},
      {"S2.h13", extent(3, 16384)},
      {"S2.h16", extent(2, 65536)},
      {"S3", extent(1, 65536)},
      {"S4", extent(0, 65536)},
      {"S5.h13", transposed(16384)},
      {"S5.h16", transposed(65536)},
      {"S6",
       [](bool breaks) {
         return exp_of(f16({1, 4, 1, breaks ? 1 : 32}));
       }},
      {"S8", ranged},
      {"S9",
       [](bool breaks) {
         return exp_of({breaks ? DType::f32 : DType::f16, {1, 4, 1, 1}});
       }},
      {"S10", top_two},
      {"S12", constant_of},
      {"S13", sliced_from},
      {"P1", top_two},
      {"P2", cast_or_exp},
      {"P3", matmul_of},
      {"P4", softmax_along},
      {"P5", [](bool breaks) { return with_states(breaks ? 3 : 2); }},
      {"P6", unary(UnaryFn::erf, UnaryFn::sigmoid)},
      {"W1", bytes_above((int64_t{1} << 31) - 2)},
      {"W2", bytes_above(1'000'000'000)},
      {"W3", bytes_above(2'000'000'000)},
      {"W4", bytes_above(200'000'000, ShardKind::experts)},
      {"W5", [](bool breaks) { return with_weight(f16({breaks ? 6'999'999 : 7'000'000})); }},
      {"W7", joined},
      {"W8", on_the_notch},
      {"W19", functions_of_state},
  };
  return all;
}

bool breaks_rule(const Target& target, const Sample& sample, const std::string& id) {
  for (const OpBreach& breach : find_breaches(target, sample.shard))
    if (breach.rule->id == id) return true;
  for (const ShardBreach& breach : find_shard_breaches(target, sample.shard, sample.facts))
    if (breach.rule->id == id) return true;
  return false;
}

TEST(AneRules, FlagOnlyTheirBreakingSamples) {
  const Target target = builtin_target("ane").value();
  for (const TargetRule& rule : target.rules) {
    const auto make = samples().find(rule.id);
    ASSERT_NE(make, samples().end()) << "rule " << rule.id << " has no shard that breaks it";
    EXPECT_TRUE(breaks_rule(target, make->second(true), rule.id)) << rule.id;
    EXPECT_FALSE(breaks_rule(target, make->second(false), rule.id)) << rule.id;
  }
  EXPECT_EQ(samples().size(), target.rules.size());
}

TEST(AneRules, MoveOpsOffTheTargetsUnit) {
  const Target target = builtin_target("ane").value();
  for (const TargetRule& rule : target.rules) {
    if (rule.unit.empty() || concerns_shards(rule.condition)) continue;
    const Shard shard = samples().at(rule.id)(true).shard;
    const auto units = predict_units(target, shard);
    bool moved = false;
    for (OpId op : op_ids(shard)) moved = moved || units[op].unit != target.unit;
    EXPECT_TRUE(moved) << rule.id;
  }
}

TEST(AneRules, ApplyOnlyToTheirChipFamilies) {
  const Target target = builtin_target("ane").value();
  const Target m1 = for_chip(target, "m1").value(), m4 = for_chip(target, "m4").value();
  const Sample wide = samples().at("S2.h13")(true);
  EXPECT_TRUE(breaks_rule(m1, wide, "S2.h13"));
  EXPECT_FALSE(breaks_rule(m4, wide, "S2.h13"));
  EXPECT_FALSE(breaks_rule(m4, wide, "S2.h16"));
  EXPECT_FALSE(breaks_rule(m4, samples().at("S13")(true), "S13"));
}

}  // namespace
}  // namespace moec
