// Compares attention with a loop over (head, query, key) in double precision, for every combination
// of features.
#include <cmath>

#include "tests/backends/reference/testing.h"

namespace moec {
namespace {

using Doubles = std::vector<double>;

struct Case {
  std::string name;
  Attention op;
  Layout layout = Layout::rows;
};

constexpr int64_t kTokens = 3, kCached = 4;

// All operands, in the layout that the reference loop reads.
struct Operands {
  std::vector<float> q, k, v, cosine, sine, mask, q_norm, k_norm, k_cache, v_cache, write_mask;
};

int64_t keys_of(const Attention& op) {
  if (op.cache == CacheForm::none) return kTokens;
  return op.cache == CacheForm::append ? kCached + kTokens : kCached;
}

Operands random_operands(const Attention& op) {
  const auto floats = [](uint64_t seed, int64_t count) {
    return random_floats(seed, static_cast<size_t>(count));
  };
  Operands in;
  in.q = floats(1, kTokens * op.heads * op.head_dim);
  in.k = floats(2, kTokens * op.kv_heads * op.head_dim);
  in.v = floats(3, kTokens * op.kv_heads * op.head_dim);
  in.cosine = floats(4, kTokens * op.rope_dims / 2);
  in.sine = floats(5, kTokens * op.rope_dims / 2);
  in.mask = floats(6, kTokens * keys_of(op));
  in.mask[1] = -1e4f;
  in.q_norm = floats(7, op.head_dim);
  in.k_norm = floats(8, op.head_dim);
  in.k_cache = floats(9, op.kv_heads * kCached * op.head_dim);
  in.v_cache = floats(10, op.kv_heads * kCached * op.head_dim);
  in.write_mask.assign(static_cast<size_t>(kCached * kTokens), 0.0f);
  for (int64_t t = 0; t < kTokens; ++t)
    in.write_mask[static_cast<size_t>((t + 1) * kTokens + t)] = 1;
  return in;
}

std::vector<Tensor> tensors_of(const Case& test, const Operands& in) {
  const Attention& op = test.op;
  const Dims cache = {1, op.kv_heads, kCached, op.head_dim};
  std::vector<Tensor> all = {tokens(test.layout, kTokens, op.heads * op.head_dim, in.q),
                             tokens(test.layout, kTokens, op.kv_heads * op.head_dim, in.k),
                             tokens(test.layout, kTokens, op.kv_heads * op.head_dim, in.v)};
  if (op.rope != RopeStyle::none) {
    all.push_back(plain({kTokens, op.rope_dims / 2}, in.cosine));
    all.push_back(plain({kTokens, op.rope_dims / 2}, in.sine));
  }
  all.push_back(plain({1, 1, kTokens, keys_of(op)}, in.mask));
  if (op.qk_norm != QkNorm::none) {
    all.push_back(plain({op.head_dim}, in.q_norm));
    all.push_back(plain({op.head_dim}, in.k_norm));
  }
  if (op.cache != CacheForm::none) {
    all.push_back(plain(cache, in.k_cache));
    all.push_back(plain(cache, in.v_cache));
  }
  if (op.cache == CacheForm::blend) all.push_back(plain({1, 1, kCached, kTokens}, in.write_mask));
  return all;
}

// Queries or keys of all tokens and their norm weights; the weights are null if there is no norm.
struct Projected {
  const std::vector<float>& rows;
  int64_t heads;
  const std::vector<float>* norm;
};

// Returns one head of one token, normalized and rotated.
Doubles prepared(const Attention& op, const Operands& in, const Projected& from, int64_t t,
                 int64_t h) {
  Doubles x;
  for (int64_t i = 0; i < op.head_dim; ++i)
    x.push_back(from.rows[static_cast<size_t>((t * from.heads + h) * op.head_dim + i)]);
  if (from.norm) {
    double squares = 0;
    for (double value : x) squares += value * value;
    for (size_t i = 0; i < x.size(); ++i)
      x[i] *= (*from.norm)[i] / std::sqrt(squares / static_cast<double>(x.size()) + op.eps);
  }
  const auto pairs = static_cast<size_t>(op.rope_dims / 2);
  for (size_t i = 0; i < pairs; ++i) {
    const size_t first = op.rope == RopeStyle::half ? i : 2 * i;
    const size_t second = op.rope == RopeStyle::half ? i + pairs : 2 * i + 1;
    const double c = in.cosine[static_cast<size_t>(t) * pairs + i],
                 s = in.sine[static_cast<size_t>(t) * pairs + i];
    const double a = x[first], b = x[second];
    x[first] = a * c - b * s;
    x[second] = a * s + b * c;
  }
  return x;
}

Doubles cached_row(const Attention& op, const std::vector<float>& cache, int64_t h, int64_t s) {
  const auto begin = cache.begin() + (h * kCached + s) * op.head_dim;
  return Doubles(begin, begin + op.head_dim);
}

// Returns all keys or values of one head. In these tests, the blend form writes new token t to
// cache row t + 1.
std::vector<Doubles> all_rows(const Attention& op, const std::vector<float>& cache, int64_t h,
                              const std::vector<Doubles>& fresh) {
  if (op.cache == CacheForm::none) return fresh;
  std::vector<Doubles> rows;
  for (int64_t s = 0; s < kCached; ++s) rows.push_back(cached_row(op, cache, h, s));
  for (size_t t = 0; t < fresh.size(); ++t) {
    if (op.cache == CacheForm::append)
      rows.push_back(fresh[t]);
    else
      rows[t + 1] = fresh[t];
  }
  return rows;
}

struct AttentionResult {
  Doubles out, k, v;  // out: [T, heads·head_dim]; k and v: the op's other results
};

Doubles attend(const Attention& op, const Doubles& q, const std::vector<Doubles>& k,
               const std::vector<Doubles>& v, const float* mask) {
  Doubles weights(k.size()), out(q.size());
  double sum = 0;
  for (size_t s = 0; s < k.size(); ++s) {
    double score = 0;
    for (size_t i = 0; i < q.size(); ++i) score += q[i] * k[s][i];
    sum += weights[s] = std::exp(score * op.scale + mask[s]);
  }
  for (size_t s = 0; s < k.size(); ++s)
    for (size_t i = 0; i < q.size(); ++i) out[i] += weights[s] / sum * v[s][i];
  return out;
}

void append(Doubles& to, const std::vector<Doubles>& rows) {
  for (const Doubles& row : rows) to.insert(to.end(), row.begin(), row.end());
}

AttentionResult naive_attention(const Attention& op, const Operands& in) {
  const bool norms = op.qk_norm != QkNorm::none;
  AttentionResult result{Doubles(static_cast<size_t>(kTokens * op.heads * op.head_dim)), {}, {}};
  for (int64_t kv = 0; kv < op.kv_heads; ++kv) {
    std::vector<Doubles> new_k, new_v;
    for (int64_t t = 0; t < kTokens; ++t) {
      new_k.push_back(prepared(op, in, {in.k, op.kv_heads, norms ? &in.k_norm : nullptr}, t, kv));
      const auto begin = in.v.begin() + (t * op.kv_heads + kv) * op.head_dim;
      new_v.emplace_back(begin, begin + op.head_dim);
    }
    const std::vector<Doubles> k = all_rows(op, in.k_cache, kv, new_k);
    const std::vector<Doubles> v = all_rows(op, in.v_cache, kv, new_v);
    append(result.k, op.cache == CacheForm::blend ? k : new_k);
    append(result.v, op.cache == CacheForm::blend ? v : new_v);
    const int64_t shared_by = op.heads / op.kv_heads;
    for (int64_t h = kv * shared_by; h < (kv + 1) * shared_by; ++h) {
      for (int64_t t = 0; t < kTokens; ++t) {
        const Doubles q = prepared(op, in, {in.q, op.heads, norms ? &in.q_norm : nullptr}, t, h);
        const Doubles one =
            attend(op, q, k, v, in.mask.data() + t * static_cast<int64_t>(k.size()));
        std::copy(one.begin(), one.end(), result.out.begin() + (t * op.heads + h) * op.head_dim);
      }
    }
  }
  return result;
}

class ReferenceAttention : public testing::TestWithParam<Case> {};

TEST_P(ReferenceAttention, MatchesTheDoublePrecisionLoop) {
  const Operands in = random_operands(GetParam().op);
  const std::vector<Tensor> found = run_op(GetParam().op, tensors_of(GetParam(), in));
  const AttentionResult expected = naive_attention(GetParam().op, in);
  expect_near(rows_in(found[0]), expected.out, 2e-6);
  if (GetParam().op.cache == CacheForm::none) {
    EXPECT_EQ(found.size(), 1u);
    return;
  }
  expect_near(found[1].data, expected.k, 2e-6);
  expect_near(found[2].data, expected.v, 2e-6);
}

std::vector<Case> cases() {
  const Attention base{
      .heads = 6, .kv_heads = 2, .head_dim = 8, .scale = 0.35, .rope = RopeStyle::none};
  Attention half = base, interleaved = base, partial = base, normed = base;
  half.rope = RopeStyle::half, half.rope_dims = 8;
  interleaved.rope = RopeStyle::interleaved, interleaved.rope_dims = 8;
  partial.rope = RopeStyle::half, partial.rope_dims = 4;
  normed = half, normed.qk_norm = QkNorm::per_head, normed.eps = 1e-2;
  Attention append = normed, blend = normed, single = half;
  append.cache = CacheForm::append;
  blend.cache = CacheForm::blend;
  single.heads = single.kv_heads = 1;
  std::vector<Case> all;
  for (Layout layout : {Layout::rows, Layout::channels}) {
    const std::string suffix = "_" + std::string(layout_name(layout));
    all.push_back({"grouped" + suffix, base, layout});
    all.push_back({"rope_half" + suffix, half, layout});
    all.push_back({"rope_interleaved" + suffix, interleaved, layout});
    all.push_back({"rope_partial" + suffix, partial, layout});
    all.push_back({"qk_norm" + suffix, normed, layout});
    all.push_back({"append" + suffix, append, layout});
    all.push_back({"blend" + suffix, blend, layout});
    all.push_back({"one_head" + suffix, single, layout});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, ReferenceAttention, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// Keys of a head are normalized to one length, then multiplied by the head's factor.
TEST(ReferenceAttentionByHand, ScalesByOneFactorPerHead) {
  const Attention op{.heads = 2,
                     .kv_heads = 2,
                     .head_dim = 2,
                     .scale = 1,
                     .qk_norm = QkNorm::per_head,
                     .rope = RopeStyle::none,
                     .cache = CacheForm::append};
  const Tensor zeros = plain({1, 2, 1, 2}, {0, 0, 0, 0});
  const std::vector<Tensor> operands = {tokens(Layout::rows, 1, 4, {1, 1, 1, 1}),
                                        tokens(Layout::rows, 1, 4, {3, 3, -5, 5}),
                                        tokens(Layout::rows, 1, 4, {0, 0, 0, 0}),
                                        plain({1, 1, 1, 2}, {0, 0}),
                                        plain({2}, {1, 1}),
                                        plain({2, 1}, {2, 7}),
                                        zeros,
                                        zeros};
  expect_near(run_op(op, operands)[1].data, {2, 2, -7, 7});
}

// Values are divided by their root mean square per head, without norm weights.
TEST(ReferenceAttentionByHand, NormalizesValues) {
  const Attention op{.heads = 2,
                     .kv_heads = 2,
                     .head_dim = 2,
                     .scale = 1,
                     .qk_norm = QkNorm::per_head_values,
                     .rope = RopeStyle::none,
                     .cache = CacheForm::append};
  const Tensor zeros = plain({1, 2, 1, 2}, {0, 0, 0, 0});
  const std::vector<Tensor> operands = {tokens(Layout::rows, 1, 4, {1, 1, 1, 1}),
                                        tokens(Layout::rows, 1, 4, {3, 3, -5, 5}),
                                        tokens(Layout::rows, 1, 4, {4, -4, 0, 6}),
                                        plain({1, 1, 1, 2}, {-1e4f, 0}),
                                        plain({2}, {1, 1}),
                                        plain({2}, {2, 7}),
                                        zeros,
                                        zeros};
  const std::vector<Tensor> results = run_op(op, operands);
  expect_near(results[1].data, {2, 7, -2, 7});
  expect_near(results[2].data, {1, -1, 0, std::sqrt(2.0f)});
  expect_near(results[0].data, {1, -1, 0, std::sqrt(2.0f)});
}

// One head of size 1 with scores 0 and ln 3, so the weights are 1/4 and 3/4.
TEST(ReferenceAttentionByHand, WeightsValuesBySoftmax) {
  const Attention op{.heads = 1, .kv_heads = 1, .head_dim = 1, .scale = 1, .rope = RopeStyle::none};
  const std::vector<Tensor> operands = {
      tokens(Layout::rows, 2, 1, {0, 1}), tokens(Layout::rows, 2, 1, {0, std::log(3.0f)}),
      tokens(Layout::rows, 2, 1, {4, 8}), plain({1, 1, 2, 2}, {0, -1e4f, 0, 0})};
  expect_near(run_op(op, operands)[0].data, {4, 0.25 * 4 + 0.75 * 8});
}

}  // namespace
}  // namespace moec
