#include "ir/graph/builder.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace moec {
namespace {

const Type kVector{DType::f32, {4}};

TEST(Builder, BuildsTheDescribedShard) {
  Builder b("L00.moe", Form::static_ops);
  const ValueId x = b.input("x", {DType::f16, {2, 3}, Layout::rows});
  b.state("s", kVector);
  const ValueId sum = b.reduce(ReduceFn::sum, x, 1, "sum");
  const ValueId half = b.scalar_like(sum, 0.5);
  b.emit_all(StateWrite{"s"}, {b.emit(StateRead{"s"}, {})});
  b.output("y", b.mul(sum, half));
  const Shard shard = b.finish();
  EXPECT_EQ(render(verify(shard)), "");
  EXPECT_EQ(print(shard), R"(shard L00.moe static {
  input %x : f16[2,3]{rows}
  state s : f32[4]
  %sum = reduce_sum %x {axis = 1} : f16[2,1]{rows}
  %2 = constant {type = f16[], values = [0.5]} : f16[]
  %3 = state_read {state = "s"} : f32[4]
  state_write %3 {state = "s"}
  %4 = mul %sum, %2 : f16[2,1]{rows}
  output y = %4
}
)");
}

TEST(Builder, InfersTypesInShortForms) {
  Builder b("a", Form::static_ops);
  const ValueId x = b.input("x", {DType::f32, {2, 3}});
  EXPECT_EQ(to_string(b.type(b.transpose(x, {1, 0}, Layout::rows))), "f32[3,2]{rows}");
  EXPECT_EQ(to_string(b.type(b.reshape(x, {6}))), "f32[6]");
  EXPECT_EQ(to_string(b.type(b.slice(x, 1, 1, 2))), "f32[2,2]");
  EXPECT_EQ(to_string(b.type(b.concat({x, x, x}, 0))), "f32[6,3]");
  EXPECT_EQ(to_string(b.type(b.cast(x, DType::f16))), "f16[2,3]");
  EXPECT_EQ(to_string(b.type(b.softmax(x, 0))), "f32[2,3]");
  const ValueId less = b.compare(CompareFn::less, x, x);
  EXPECT_EQ(to_string(b.type(less)), "bool[2,3]");
  EXPECT_EQ(to_string(b.type(b.select(less, x, x))), "f32[2,3]");
  EXPECT_EQ(to_string(b.type(b.matmul(x, b.transpose(x, {1, 0})))), "f32[2,2]");
  EXPECT_EQ(render(verify(b.finish())), "");
}

TEST(Builder, MakesNamesUnique) {
  Builder b("a", Form::static_ops);
  const ValueId x = b.input("x", kVector);
  std::vector<std::string> names;
  for (const char* name : {"x", "h", "h", "h_2", "h", "", ""})
    names.push_back(b.shard().label(b.unary(UnaryFn::exp, x, name)));
  EXPECT_EQ(names, (std::vector<std::string>{"x_2", "h", "h_2", "h_2_2", "h_3", "6", "7"}));
  EXPECT_EQ(render(verify(b.finish())), "");
}

TEST(Builder, PrefixesNamesWithOpenScopes) {
  Builder b("a", Form::static_ops);
  const ValueId x = b.input("x", kVector);
  std::vector<std::string> names;
  auto add = [&](const char* name) {
    names.push_back(b.shard().label(b.unary(UnaryFn::exp, x, name)));
  };
  {
    Builder::NameScope experts(b, "experts");
    add("h");
    {
      Builder::NameScope third(b, "3");
      add("h");
      add("");
    }
    add("h");
  }
  add("h");
  EXPECT_EQ(names, (std::vector<std::string>{"experts.h", "experts.3.h", "3", "experts.h_2", "h"}));
}

TEST(Builder, NamesUnnamedValues) {
  Builder b("a", Form::static_ops);
  const ValueId x = b.input("x", kVector);
  const ValueId unnamed = b.unary(UnaryFn::exp, x), named = b.unary(UnaryFn::neg, x, "n");
  b.name_if_unnamed(unnamed, "n");
  b.name_if_unnamed(named, "other");
  EXPECT_EQ(b.shard().label(unnamed), "n_2");
  EXPECT_EQ(b.shard().label(named), "n");
  b.rename(named, "x");
  EXPECT_EQ(b.shard().label(named), "x_2");
}

TEST(BuilderDeathTest, RejectsIllTypedOps) {
  Builder b("a", Form::static_ops);
  const ValueId x = b.input("x", {DType::i64, {4}});
  EXPECT_EXIT(b.unary(UnaryFn::exp, x), testing::ExitedWithCode(3), "unary.c2: operands must be");
}

TEST(Shard, CountsUsesInOperandsAndOutputs) {
  Builder b("a", Form::static_ops);
  const ValueId x = b.input("x", kVector);
  const ValueId twice = b.add(x, x);
  b.output("y", twice);
  b.output("z", twice);
  const ValueId unused = b.unary(UnaryFn::exp, x);
  const auto uses = count_uses(b.shard());
  EXPECT_EQ(uses[x], 3u);
  EXPECT_EQ(uses[twice], 2u);
  EXPECT_EQ(uses[unused], 0u);
}

TEST(Shard, FindsProducersAndStates) {
  Builder b("a", Form::static_ops);
  const ValueId x = b.input("x", kVector);
  b.state("s", kVector);
  const ValueId e = b.unary(UnaryFn::exp, x);
  const Shard shard = b.finish();
  EXPECT_EQ(shard.producer_as<Unary>(x), nullptr);
  EXPECT_EQ(shard.producer_as<Binary>(e), nullptr);
  ASSERT_NE(shard.producer_as<Unary>(e), nullptr);
  EXPECT_EQ(shard.producer_as<Unary>(e)->fn, UnaryFn::exp);
  EXPECT_EQ(shard.find_state("s")->type, kVector);
  EXPECT_EQ(shard.find_state("t"), nullptr);
}

}  // namespace
}  // namespace moec
