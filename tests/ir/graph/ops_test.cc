#include "ir/graph/ops.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/text/text.h"
#include "tests/ir/random_shard.h"

namespace moec {
namespace {

template <class Fn, class OpT>
void expect_functions_are_mnemonics() {
  for (std::string_view name : enum_names(Fn{})) {
    auto data = parse_mnemonic(name);
    ASSERT_TRUE(data && std::holds_alternative<OpT>(*data)) << name;
    EXPECT_EQ(mnemonic(*data), name);
  }
}

TEST(Ops, MapsEachMnemonicToItsOp) {
  expect_functions_are_mnemonics<UnaryFn, Unary>();
  expect_functions_are_mnemonics<BinaryFn, Binary>();
  expect_functions_are_mnemonics<CompareFn, Compare>();
  expect_functions_are_mnemonics<ReduceFn, Reduce>();
  size_t plain = 0;
  for (size_t i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    auto data = parse_mnemonic(traits_of(kind).name);
    if (!data) continue;
    ++plain;
    EXPECT_EQ(kind_of(*data), kind);
    EXPECT_EQ(mnemonic(*data), traits_of(kind).name);
  }
  EXPECT_EQ(plain, kOpKinds - 4);
}

TEST(Ops, RejectsKindsAsMnemonics) {
  for (const char* name : {"unary", "binary", "compare", "reduce", "", "Conv", "conv "})
    EXPECT_FALSE(parse_mnemonic(name)) << name;
}

TEST(Ops, LimitsCompositesToTheirForms) {
  for (OpKind kind :
       {OpKind::Attention, OpKind::GatedMlp, OpKind::RmsNorm, OpKind::Router, OpKind::SoftMoe})
    EXPECT_EQ(traits_of(kind).last_form, Form::model);
  EXPECT_EQ(traits_of(OpKind::Linear).last_form, Form::lowered);
  EXPECT_EQ(traits_of(OpKind::Conv).last_form, Form::placed);
}

TEST(Ops, ReturnsStateOfOpsWithEffect) {
  const OpData read = StateRead{"k"}, write = StateWrite{"v"};
  EXPECT_TRUE(reads_state(read) && !writes_state(read));
  EXPECT_TRUE(writes_state(write) && !reads_state(write));
  EXPECT_EQ(*state_of(read), "k");
  EXPECT_EQ(*state_of(write), "v");
  EXPECT_EQ(state_of(Weight{}), nullptr);
}

TEST(Ops, ReturnsGroupOfEachOp) {
  EXPECT_TRUE(is_source(OpData(Weight{})) && is_source(OpData(Constant{})));
  EXPECT_FALSE(is_source(OpData(StateRead{})));
  EXPECT_TRUE(is_contraction(Conv{}) && is_contraction(MatMul{}));
  EXPECT_FALSE(is_contraction(Linear{}));
  EXPECT_EQ(traits_of(OpKind::Reshape).attributes, AttributeSizes::sized);
}

TEST(Ops, RoundTripsEnumNames) {
  EXPECT_EQ(parse_enum<Score>("softmax_selected"), Score::softmax_selected);
  EXPECT_EQ(enum_name(Renorm::max_eps), "max_eps");
  EXPECT_EQ(parse_enum<Score>("Softmax"), std::nullopt);
}

// Ops have equal hashes if and only if their printed mnemonics and attributes are equal.
TEST(Ops, HashesDifferingAttributesDifferently) {
  std::map<uint64_t, std::string> seen;
  std::set<std::string> texts;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Shard shard = RandomShard(seed).make();
    for (const Op& op : shard.ops) {
      Shard alone;
      alone.ops.push({op.data, {}, {}});
      const std::string text = print(alone);
      auto [found, is_new] = seen.emplace(hash_attributes(op.data), text);
      EXPECT_EQ(found->second, text);
      texts.insert(text);
    }
  }
  EXPECT_EQ(seen.size(), texts.size());
  EXPECT_GT(texts.size(), 1000u);
}

// Files do not contain the hash, but dumps and caches are compared by hash across runs and
// machines.
TEST(Ops, KeepsHashesStable) {
  EXPECT_EQ(hash_attributes(Conv{1}), hash_attributes(Conv{1}));
  EXPECT_NE(hash_attributes(Conv{1}), hash_attributes(Conv{2}));
  EXPECT_NE(hash_attributes(Unary{UnaryFn::exp}), hash_attributes(Unary{UnaryFn::log}));
}

}  // namespace
}  // namespace moec
