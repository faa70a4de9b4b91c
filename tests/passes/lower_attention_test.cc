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
  int64_t v_dim = 8;
  bool sinks = false;
  bool head_factors = false;  // the norms of q and k have one factor per head
};

constexpr int64_t kHeads = 6, kHeadDim = 8, kCached = 5;  // kCached: rows per page

Shard attention_shard(const Case& c, DType dtype = DType::f32) {
  Builder b("attn", Form::model);
  auto tokens = [&](const char* name, int64_t channels) {
    return b.input(name, token_type(dtype, c.layout, channels, c.tokens));
  };
  auto plain = [&](const char* name, Dims dims) { return b.input(name, {dtype, std::move(dims)}); };
  std::vector<ValueId> operands = {tokens("q", kHeads * kHeadDim),
                                   tokens("k", c.kv_heads * kHeadDim),
                                   tokens("v", c.kv_heads * c.v_dim)};
  if (c.rope != RopeStyle::none) {
    operands.push_back(plain("rope_cos", {c.tokens, c.rope_dims / 2}));
    operands.push_back(plain("rope_sin", {c.tokens, c.rope_dims / 2}));
  }
  const int64_t cached = c.cache == CacheForm::none ? 0 : kCached;
  const int64_t keys = c.cache == CacheForm::blend ? cached : cached + c.tokens;
  operands.push_back(plain("attn_mask", {c.pages, 1, c.tokens, keys}));
  if (c.qk_norm != QkNorm::none)
    for (const auto& [name, heads] : {std::pair("q_norm", kHeads), {"k_norm", c.kv_heads}})
      operands.push_back(plain(name, c.head_factors ? Dims{heads, 1} : Dims{kHeadDim}));
  if (c.cache != CacheForm::none) {
    operands.push_back(plain("k_cache", {c.pages, c.kv_heads, cached, kHeadDim}));
    operands.push_back(plain("v_cache", {c.pages, c.kv_heads, cached, c.v_dim}));
  }
  if (c.cache == CacheForm::blend)
    operands.push_back(plain("kv_write_mask", {c.pages, 1, cached, c.tokens}));
  if (c.sinks) operands.push_back(plain("sinks", {kHeads}));
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

TEST_P(LowerAttention, PreservesValues) {
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

std::string attention_case_name(const testing::TestParamInfo<Axes>& info) {
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
    attention_case_name);

using ExtraAxes = std::tuple<Layout, AttentionForm, CacheForm>;

class LowerAttentionExtras : public testing::TestWithParam<ExtraAxes> {
 protected:
  static void expect_kept(const Case& c) {
    const Shard before = attention_shard(c);
    const Shard after = run_passes(before, "lower_attention", {.attention = c.form});
    EXPECT_EQ(count_ops<Attention>(after), 0u);
    expect_same_values(before, after);
  }
  static Case plain_case(int64_t kv_heads) {
    const auto [layout, form, cache] = GetParam();
    return {layout, form, cache, RopeStyle::half, 4, QkNorm::none, kv_heads, 3};
  }
};

TEST_P(LowerAttentionExtras, PreserveValuesWithSinks) {
  for (int64_t kv_heads : {2, 6}) {
    Case c = plain_case(kv_heads);
    c.sinks = true;
    expect_kept(c);
    if (c.cache != CacheForm::blend) continue;
    c.pages = 2;
    expect_kept(c);
  }
}

TEST_P(LowerAttentionExtras, PreserveValuesWithRotatedNorms) {
  Case c = plain_case(2);
  c.qk_norm = QkNorm::per_head_rotated;
  expect_kept(c);
}

TEST_P(LowerAttentionExtras, PreserveValuesWithValueNorms) {
  for (int64_t v_dim : {3, 11}) {
    Case c = plain_case(2);
    c.qk_norm = QkNorm::per_head_values;
    c.v_dim = v_dim;
    expect_kept(c);
  }
}

TEST_P(LowerAttentionExtras, PreserveValuesWithPerHeadFactors) {
  for (QkNorm norm : {QkNorm::per_head, QkNorm::per_head_rotated}) {
    Case c = plain_case(2);
    c.qk_norm = norm;
    c.head_factors = true;
    expect_kept(c);
  }
}

TEST_P(LowerAttentionExtras, PreserveValuesWithAnotherValueWidth) {
  for (int64_t kv_heads : {2, 6})
    for (int64_t v_dim : {3, 11}) {
      Case c = plain_case(kv_heads);
      c.v_dim = v_dim;
      expect_kept(c);
    }
}

INSTANTIATE_TEST_SUITE_P(
    AllForms, LowerAttentionExtras,
    testing::Combine(testing::ValuesIn(kTokenLayouts),
                     testing::Values(AttentionForm::batched, AttentionForm::per_head),
                     testing::Values(CacheForm::none, CacheForm::append, CacheForm::blend)));

// Sinks and the order of norm and rotation change the results, so the value tests fail if a pass
// drops or reorders them.
TEST(AttentionExtras, ChangeTheResult) {
  const Case c{Layout::rows,
               AttentionForm::batched,
               CacheForm::none,
               RopeStyle::half,
               4,
               QkNorm::per_head,
               2,
               3};
  Case rotated = c, with_sinks = c;
  rotated.qk_norm = QkNorm::per_head_rotated;
  with_sinks.sinks = true;
  const Shard before = attention_shard(c), after = attention_shard(rotated);
  const std::vector<Tensor> inputs = seeded_inputs(before, 3);
  const Tensor plain = outputs_of(before, inputs)[0];
  EXPECT_GT(relative_l2(outputs_of(after, inputs)[0].data, plain.data), 1e-3);
  std::vector<Tensor> more = inputs;
  more.push_back({{DType::f32, {kHeads}}, std::vector<float>(kHeads, -100)});
  const Shard sunk = attention_shard(with_sinks);
  EXPECT_LE(relative_l2(outputs_of(sunk, more)[0].data, plain.data), 1e-6) << "no share";
  more.back().data.assign(kHeads, 100);
  const Tensor nothing = outputs_of(sunk, more)[0];
  for (float value : nothing.data) EXPECT_NEAR(value, 0, 1e-6) << "all of it";
}

using PagedAxes = std::tuple<Layout, AttentionForm, int64_t>;

class LowerPagedAttention : public testing::TestWithParam<PagedAxes> {};

TEST_P(LowerPagedAttention, PreservesValuesAndSeparatesPages) {
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

TEST(LowerAttentionNames, NameScoresAndProbsPerHead) {
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

TEST(LowerAttentionBatched, UsesKeyHeadsInMatmuls) {
  const Shard after = run_passes(attention_shard(grouped(AttentionForm::batched)),
                                 "lower_attention", {.attention = AttentionForm::batched});
  for (const Op& op : after.ops)
    if (std::holds_alternative<MatMul>(op.data)) {
      EXPECT_EQ(after.type(op.operands[0]).dims[1], 2) << "the key heads, not the query heads";
    }
}

TEST(LowerAttentionHalfPrecision, PreservesValues) {
  for (AttentionForm form : {AttentionForm::batched, AttentionForm::per_head}) {
    const Shard before = attention_shard(grouped(form), DType::f16);
    expect_same_values(before, run_passes(before, "lower_attention", {.attention = form}), 5e-3);
  }
}

// The output of the first of three tokens is bit-identical when the other tokens change, even
// though its scores for them far exceed the score for itself.
TEST(LowerAttentionMask, HidesLaterTokensAtAnyScore) {
  for (auto [dtype, factor] : {std::pair{DType::f32, 1e9f}, {DType::f16, 2e4f}})
    for (AttentionForm form : {AttentionForm::batched, AttentionForm::per_head}) {
      const Case c{Layout::rows, form, CacheForm::none, RopeStyle::none, 0, QkNorm::none, 2, 3};
      const Shard shard =
          run_passes(attention_shard(c, dtype), "lower_attention", {.attention = form});
      std::vector<Tensor> inputs = seeded_inputs(shard, 1);
      for (float& q : inputs[0].data) q *= factor;
      const std::vector<float> one = outputs_of(shard, inputs)[0].data;
      for (Tensor* rows : {&inputs[1], &inputs[2]})
        for (size_t i = rows->data.size() / 3; i < rows->data.size(); ++i) rows->data[i] *= -1;
      const std::vector<float> other = outputs_of(shard, inputs)[0].data;
      const auto first = static_cast<ptrdiff_t>(one.size() / 3);
      for (auto i = one.begin(); i < one.begin() + first; ++i) EXPECT_TRUE(std::isfinite(*i));
      EXPECT_EQ(std::vector(one.begin(), one.begin() + first),
                std::vector(other.begin(), other.begin() + first));
      EXPECT_NE(one, other);
    }
}

}  // namespace
}  // namespace moec
