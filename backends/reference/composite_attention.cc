// Attention by its definition: one head, one query, one key at a time.
#include "backends/reference/axis.h"
#include "backends/reference/eval.h"
#include "backends/reference/heads.h"
#include "backends/reference/norm.h"
#include "backends/reference/tokens.h"
#include "ir/base/at.h"
#include "ir/graph/composite_operands.h"

namespace moec {
namespace {

using Named = AttentionOperands<const Tensor*>;  // absent operands are null

// Rotates pair i of token t by the angle whose cosine and sine are row t, column i of the tables.
// Channels from `rope_dims` on do not change. Both results use the old values, so `x` and `y` copy
// them first.
void rotate(const Attention& op, const Named& in, int64_t token, std::span<float> head) {
  const auto pairs = static_cast<size_t>(op.rope_dims / 2);
  for (size_t i = 0; i < pairs; ++i) {
    const size_t a = pairs_halves(op.rope) ? i : 2 * i;
    const size_t b = pairs_halves(op.rope) ? i + pairs : 2 * i + 1;
    const size_t angle = static_cast<size_t>(token) * pairs + i;
    const float cosine = in.rope_cos->data[angle], sine = in.rope_sin->data[angle];
    const float x = head[a], y = head[b];
    head[a] = x * cosine - y * sine;
    head[b] = y * cosine + x * sine;
  }
}

// Weights of the norm for one head: a vector shared by all heads, or a number per head.
std::vector<float> head_weights(const Tensor& norm, int64_t head, int64_t head_dim) {
  if (norm.type.rank() == 1) return norm.data;
  return std::vector<float>(static_cast<size_t>(head_dim), at(norm.data, head));
}

// `norm` is null if the op has no norm weights.
Heads normed_and_rotated(const Attention& op, const Named& in, const Tensor& tokens, int64_t heads,
                         const Tensor* norm) {
  Heads split = split_heads(tokens, heads, op.head_dim);
  for (int64_t h = 0; h < heads; ++h) {
    const std::vector<float> weights =
        norm == nullptr ? std::vector<float>() : head_weights(*norm, h, op.head_dim);
    for (int64_t t = 0; t < split.rows; ++t) {
      if (facts_of(op.qk_norm).before) rms_norm(split.at(h, t), weights, op.eps);
      if (op.rope != RopeStyle::none) rotate(op, in, t, split.at(h, t));
      if (facts_of(op.qk_norm).after) rms_norm(split.at(h, t), weights, op.eps);
    }
  }
  return split;
}

// The values have no norm weight, so all weights are 1.
void norm_values(Heads& v, const Attention& op) {
  const std::vector<float> ones(static_cast<size_t>(v.head_dim), 1);
  for (int64_t h = 0; h < op.kv_heads; ++h)
    for (int64_t t = 0; t < v.rows; ++t) rms_norm(v.at(h, t), ones, op.eps);
}

// Returns the rows of the cache, followed by the new ones.
Heads appended(Heads cache, Heads rows, int64_t heads) {
  Heads all{cache.rows + rows.rows, rows.head_dim, {}};
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t r = 0; r < cache.rows; ++r)
      all.data.insert(all.data.end(), cache.at(h, r).begin(), cache.at(h, r).end());
    for (int64_t r = 0; r < rows.rows; ++r)
      all.data.insert(all.data.end(), rows.at(h, r).begin(), rows.at(h, r).end());
  }
  return all;
}

// cache · (1 − Σ_t write_mask[s, t]) + Σ_t write_mask[s, t] · row t. The products are in f32, their
// sum in double. Each output element reads only its own cache element, so the update works in
// place.
Heads blended(Heads cache, Heads rows, int64_t heads, const Tensor& write_mask) {
  for (int64_t s = 0; s < cache.rows; ++s) {
    const Line writes{write_mask.data.data() + s * rows.rows, rows.rows};
    const auto kept = static_cast<float>(1 - sum_of(writes));
    for (int64_t h = 0; h < heads; ++h) {
      for (size_t i = 0; i < static_cast<size_t>(cache.head_dim); ++i) {
        double value = cache.at(h, s)[i] * kept;
        for (int64_t t = 0; t < rows.rows; ++t) value += writes[t] * rows.at(h, t)[i];
        cache.at(h, s)[i] = static_cast<float>(value);
      }
    }
  }
  return cache;
}

Heads joined_with_cache(const Attention& op, const Named& in, const Tensor* cache, Heads rows) {
  if (!has_cache(op.cache)) return rows;
  Heads cached = from_pages(*cache);
  if (!updates_cache(op.cache)) return appended(std::move(cached), std::move(rows), op.kv_heads);
  return blended(std::move(cached), std::move(rows), op.kv_heads, *in.write_mask);
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// One query of one head.
struct Query {
  std::span<const float> q;
  const std::vector<float>& mask;  // added to the scores, one number per key
  const float* sink;               // may be null
};

// Keys and values of one head.
struct KeyHead {
  Heads& k;
  Heads& v;
  int64_t head;
};

// out = Σ softmax(scale · q·k + mask) · v. A sink is one more score of the softmax, without a
// value. The probabilities of the keys then sum to less than 1.
void attend(double scale, const Query& query, const KeyHead& keys, std::span<float> out) {
  std::vector<float> scores;
  for (int64_t s = 0; s < keys.k.rows; ++s)
    scores.push_back(
        static_cast<float>(dot(query.q, keys.k.at(keys.head, s)) * scale + at(query.mask, s)));
  if (query.sink != nullptr) scores.push_back(*query.sink);
  std::vector<float> probs(scores.size());
  softmax({scores.data(), std::ssize(scores)}, probs.data());
  for (size_t i = 0; i < out.size(); ++i) {
    double sum = 0;
    for (int64_t s = 0; s < keys.k.rows; ++s)
      sum += static_cast<double>(at(probs, s)) * keys.v.at(keys.head, s)[i];
    out[i] = static_cast<float>(sum);
  }
}

}  // namespace

std::vector<Tensor> eval(const Attention& op, const Call& call) {
  const Named in = attention_operands(op, call.operands);
  Heads q = normed_and_rotated(op, in, *in.q, op.heads, in.q_norm);
  Heads new_k = normed_and_rotated(op, in, *in.k, op.kv_heads, in.k_norm);
  // Values may have another head size than keys, so `v_dim` follows from the channels of v.
  const int64_t v_dim = channels_of(in.v->type) / op.kv_heads;
  Heads new_v = split_heads(*in.v, op.kv_heads, v_dim);
  if (facts_of(op.qk_norm).of_values) norm_values(new_v, op);
  Heads k = joined_with_cache(op, in, in.k_cache, new_k);
  Heads v = joined_with_cache(op, in, in.v_cache, new_v);
  TokenRows out = zero_rows(q.rows, op.heads * v_dim);
  const auto attend_queries = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const std::vector<float> mask = mask_of_query(*in.mask, t);
      for (int64_t h = 0; h < op.heads; ++h)
        attend(op.scale, {q.at(h, t), mask, in.sinks == nullptr ? nullptr : &at(in.sinks->data, h)},
               // Grouped-query attention: consecutive query heads share a key head.
               {k, v, h / (op.heads / op.kv_heads)},
               out.row(t).subspan(static_cast<size_t>(h * v_dim), static_cast<size_t>(v_dim)));
    }
  };
  // The sums are those of the definition with any engine; kernels only divide the queries.
  if (call.products != nullptr)
    call.products->divide(q.rows, attend_queries);
  else
    attend_queries(0, q.rows);
  std::vector<Tensor> results = {tensor_of(out, call.types[0])};
  if (!has_cache(op.cache)) return results;
  // A caller that appends keeps the old rows itself and needs only the new ones.
  const bool whole_cache = updates_cache(op.cache);
  results.push_back(in_pages(whole_cache ? k : new_k, call.types[1]));
  results.push_back(in_pages(whole_cache ? v : new_v, call.types[2]));
  return results;
}

}  // namespace moec
