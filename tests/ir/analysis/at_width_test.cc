#include "ir/analysis/at_width.h"

#include <gmock/gmock.h>

#include "ir/graph/builder.h"
#include "ir/text/text.h"

namespace moec {
namespace {

// `tokens` tokens of 4 channels in two heads, appended to a cache of `rows` rows.
Shard attention_like(int64_t tokens, int64_t rows = 8) {
  Builder b("L00.attn", Form::placed);
  const ValueId x = b.input("x", token_type(DType::f16, Layout::channels, 4, tokens));
  const ValueId cache = b.input("cache", {DType::f16, {1, 2, rows, 2}});
  const ValueId heads = b.reshape(x, {1, 2, 2, tokens}, Layout::plain, "heads");
  const ValueId keys = b.concat({cache, b.transpose(heads, {0, 1, 3, 2})}, 2, "keys");
  b.output("new", b.slice(keys, 2, rows, tokens, "new"));
  return b.finish();
}

TEST(AtWidth, InterpolatesEverySizeLinearly) {
  const Shard three = attention_like(3), five = attention_like(5);
  for (int64_t tokens : {1, 2, 3, 4, 5, 64}) {
    const auto shard = at_width({3, &three}, {5, &five}, tokens);
    ASSERT_TRUE(shard) << render(shard.error());
    EXPECT_EQ(print(*shard), print(attention_like(tokens)));
  }
}

TEST(AtWidth, RejectsSamplesWithDifferentOps) {
  const Shard three = attention_like(3);
  Builder b("L00.attn", Form::placed);
  b.output("new", b.input("x", token_type(DType::f16, Layout::channels, 4, 5)));
  const Shard other = b.finish();
  const auto refused = at_width({3, &three}, {5, &other}, 4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error()[0].code, "width.structure");
}

TEST(AtWidth, NamesTheOpWithDifferingAttributes) {
  auto scaled = [](int64_t tokens, double factor) {
    Builder b("s", Form::placed);
    const ValueId x = b.input("x", token_type(DType::f16, Layout::channels, 4, tokens));
    b.output("y", b.mul(x, b.scalar_like(x, factor)));
    return b.finish();
  };
  const Shard a = scaled(2, 0.5), other = scaled(4, 0.25);
  const auto refused = at_width({2, &a}, {4, &other}, 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error()[0].code, "width.structure");
  EXPECT_THAT(refused.error()[0].cause, testing::HasSubstr("differs in more than sizes"));
}

TEST(AtWidth, RejectsFractionalSizes) {
  auto halves = [](int64_t tokens, int64_t rows) {
    Builder b("s", Form::placed);
    b.input("mask", {DType::f16, {1, 1, tokens, rows}});
    b.output("y", b.input("x", token_type(DType::f16, Layout::channels, 4, tokens)));
    return b.finish();
  };
  const Shard a = halves(2, 10), c = halves(4, 11);
  const auto refused = at_width({2, &a}, {4, &c}, 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error()[0].code, "width.structure");
}

}  // namespace
}  // namespace moec
