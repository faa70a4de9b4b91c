// Sample shards for the rules of a target; each one breaks or keeps one rule.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "ir/graph/builder.h"
#include "ir/target/target_rules.h"

namespace moec {

struct RuleSample {
  Shard shard;
  ShardFacts facts = {};
};

// Maps a rule's id to its sample, which breaks the rule if `breaks` and keeps it otherwise.
using RuleSamples = std::map<std::string, std::function<RuleSample(bool breaks)>>;

inline RuleSample of_input(Type type, const std::function<ValueId(Builder&, ValueId)>& make) {
  Builder b("L00.moe", Form::static_ops);
  ValueId x = b.input("x", std::move(type));
  b.output("y", make(b, x));
  return {b.finish()};
}

inline RuleSample read_state_or_port(bool breaks) {
  Builder b("L00.attn", Form::static_ops);
  const Type type{DType::f16, {1, 1, 4, 4}};
  if (breaks) b.state("s", type);
  b.output("y", b.unary(UnaryFn::sqrt, breaks ? b.emit(StateRead{"s"}, {}) : b.input("s", type)));
  return {b.finish()};
}

// A mixture of two experts, or the projection of tokens by one matrix.
inline RuleSample experts_or_matmul(bool breaks) {
  Builder b("L00.moe", Form::static_ops);
  const auto weight = [&](const Dims& dims) {
    return b.weight(seeded_view(1, {DType::f16, dims}));
  };
  const ValueId x = b.input("x", token_type(DType::f16, Layout::rows, 4, 3));
  const ValueId routing = b.input("routing", token_type(DType::f16, Layout::rows, 2, 3));
  b.output("y", breaks ? b.emit(Moe{1}, {x, routing, weight({2, 12, 4}), weight({2, 4, 6})})
                       : b.matmul(x, weight({4, 6})));
  return {b.finish()};
}

inline bool breaks_rule(const Target& target, const RuleSample& sample, const std::string& id) {
  for (const OpBreach& breach : find_breaches(target, sample.shard))
    if (breach.rule->id == id) return true;
  for (const ShardBreach& breach : find_shard_breaches(target, sample.shard, sample.facts))
    if (breach.rule->id == id) return true;
  return false;
}

// Checks that each rule of the target has a sample that breaks it and one that keeps it.
inline void expect_samples_break_their_rules(const Target& target, const RuleSamples& samples) {
  for (const TargetRule& rule : target.rules) {
    const auto make = samples.find(rule.id);
    ASSERT_NE(make, samples.end()) << "rule " << rule.id << " has no shard that breaks it";
    EXPECT_TRUE(breaks_rule(target, make->second(true), rule.id)) << rule.id;
    EXPECT_FALSE(breaks_rule(target, make->second(false), rule.id)) << rule.id;
  }
  EXPECT_EQ(samples.size(), target.rules.size());
}

}  // namespace moec
