#include <tuple>

#include "tests/passes/pass_testing.h"

namespace moec {
namespace {

struct Case {
  Layout layout;
  AttentionForm form;
  CacheForm cache;
  RopeStyle rope;
  int64_t rope_dims;
  QkNorm qk_norm;
  int64_t kv_heads;
  int64_t tokens;
  int64_t pages = 1;
};

constexpr int64_t kHeads = 6, kHeadDim = 8, kCached = 5;  // rows of a page

Shard attention_shard(const Case& c, DType dtype = DType::f32) {
  Builder b("attn", Form::model);
  auto tokens = [&](const char* name, int64_t heads) {
    return b.input(name, token_type(dtype, c.layout, heads * kHeadDim, c.tokens));
  };
  auto plain = [&](const char* name, Dims dims) { return b.input(name, {dtype, std::move(dims)}); };
  std::vector<ValueId> operands = {tokens("q", kHeads), tokens("k", c.kv_heads),
                                   tokens("v", c.kv_heads)};
  if (c.rope != RopeStyle::none) {
    operands.push_back(plain("rope_cos", {c.tokens, c.rope_dims / 2}));
    operands.push_back(plain("rope_sin", {c.tokens, c.rope_dims / 2}));
  }
  const int64_t cached = c.cache == CacheForm::none ? 0 : kCached;
  const int64_t keys = c.cache == CacheForm::blend ? cached : cached + c.tokens;
  operands.push_back(plain("attn_mask", {c.pages, 1, c.tokens, keys}));
  if (c.qk_norm != QkNorm::none)
    for (const char* name : {"q_norm", "k_norm"}) operands.push_back(plain(name, {kHeadDim}));
  if (c.cache != CacheForm::none)
    for (const char* name : {"k_cache", "v_cache"})
      operands.push_back(plain(name, {c.pages, c.kv_heads, cached, kHeadDim}));
  if (c.cache == CacheForm::blend)
    operands.push_back(plain("kv_write_mask", {c.pages, 1, cached, c.tokens}));
  const Attention op{.heads = kHeads,
                     .kv_heads = c.kv_heads,
                     .head_dim = kHeadDim,
                     .scale = 0.4,
                     .qk_norm = c.qk_norm,
                     .eps = 1e-5,
                     .rope = c.rope,
                     .rope_dims = c.rope == RopeStyle::none ? 0 : c.rope_dims,
                     .cache = c.cache};
  std::vector<ValueId> results = b.emit_all(op, operands, "attn");
  b.output("out", results[0]);
  if (results.size() == 3) {
    b.output("k_new", results[1]);
    b.output("v_new", results[2]);
  }
  return b.finish();
}

using Axes = std::tuple<Layout, AttentionForm, CacheForm, RopeStyle, QkNorm>;

class LowerAttention : public testing::TestWithParam<Axes> {};

TEST_P(LowerAttention, KeepsValues) {
  const auto [layout, form, cache, rope, qk_norm] = GetParam();
  for (int64_t rope_dims : {kHeadDim, kHeadDim / 2}) {
    if (rope == RopeStyle::none && rope_dims != kHeadDim) continue;
    for (int64_t kv_heads : {1, 2, 6}) {
      for (int64_t tokens : {1, 3}) {
        const Case c{layout, form, cache, rope, rope_dims, qk_norm, kv_heads, tokens};
        const Shard before = attention_shard(c);
        const Shard after = run_passes(before, "lower_attention", {.attention = form});
        EXPECT_EQ(count_ops<Attention>(after), 0u);
        EXPECT_EQ(count_ops<MatMul>(after), (form == AttentionForm::batched ? 2 : 2 * kHeads) +
                                                (cache == CacheForm::blend ? 2u : 0u));
        expect_same_values(before, after);
      }
    }
  }
}

std::string case_name(const testing::TestParamInfo<Axes>& info) {
  const auto& [layout, form, cache, rope, qk_norm] = info.param;
  return std::string(layout_name(layout)) + "_" + std::string(enum_name(form)) + "_cache_" +
         std::string(enum_name(cache)) + "_rope_" + std::string(enum_name(rope)) + "_norm_" +
         std::string(enum_name(qk_norm));
}

INSTANTIATE_TEST_SUITE_P(
    AllForms, LowerAttention,
    testing::Combine(testing::ValuesIn(kTokenLayouts),
                     testing::Values(AttentionForm::batched, AttentionForm::per_head),
                     testing::Values(CacheForm::none, CacheForm::append, CacheForm::blend),
                     testing::Values(RopeStyle::none, RopeStyle::half, RopeStyle::interleaved),
                     testing::Values(QkNorm::none, QkNorm::per_head)),
    case_name);

using PagedAxes = std::tuple<Layout, AttentionForm, int64_t>;

class LowerPagedAttention : public testing::TestWithParam<PagedAxes> {};

TEST_P(LowerPagedAttention, KeepsValuesAndNoAxisSpansThePages) {
  const auto [layout, form, pages] = GetParam();
  for (int64_t kv_heads : {1, 2, 6}) {
    for (int64_t tokens : {1, 3}) {
      const Case c{layout,          form,     CacheForm::blend,
                   RopeStyle::half, kHeadDim, QkNorm::per_head,
                   kv_heads,        tokens,   pages};
      const Shard before = attention_shard(c);
      const Shard after = run_passes(before, "lower_attention", {.attention = form});
      expect_same_values(before, after);
      for (const Value& value : after.values)
        for (int64_t size : value.type.dims) EXPECT_NE(size, pages * kCached) << value.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllForms, LowerPagedAttention,
                         testing::Combine(testing::ValuesIn(kTokenLayouts),
                                          testing::Values(AttentionForm::batched,
                                                          AttentionForm::per_head),
                                          testing::Values(2, 5)));

Case grouped(AttentionForm form) {
  return {Layout::channels, form, CacheForm::append, RopeStyle::half, kHeadDim, QkNorm::none, 2, 3};
}

TEST(LowerAttentionNames, AreReadable) {
  auto names = [](AttentionForm form) {
    std::vector<std::string> found;
    const Shard after =
        run_passes(attention_shard(grouped(form)), "lower_attention", {.attention = form});
    for (const Value& value : after.values)
      if (value.name.ends_with("scores") || value.name.ends_with("probs"))
        found.push_back(value.name);
    return found;
  };
  EXPECT_EQ(names(AttentionForm::batched), (std::vector<std::string>{"scores", "probs"}));
  const std::vector<std::string> per_head = names(AttentionForm::per_head);
  ASSERT_EQ(per_head.size(), 2 * kHeads);
  EXPECT_EQ(per_head[6], "head.3.scores");
  EXPECT_EQ(per_head[7], "head.3.probs");
}

TEST(LowerAttentionBatched, RepeatsNoKeys) {
  const Shard after = run_passes(attention_shard(grouped(AttentionForm::batched)),
                                 "lower_attention", {.attention = AttentionForm::batched});
  for (const Op& op : after.ops)
    if (std::holds_alternative<MatMul>(op.data)) {
      EXPECT_EQ(after.type(op.operands[0]).dims[1], 2) << "the key heads, not the query heads";
    }
}

TEST(LowerAttentionHalfPrecision, KeepsValues) {
  for (AttentionForm form : {AttentionForm::batched, AttentionForm::per_head}) {
    const Shard before = attention_shard(grouped(form), DType::f16);
    expect_same_values(before, run_passes(before, "lower_attention", {.attention = form}), 5e-3);
  }
}

}  // namespace
}  // namespace moec
