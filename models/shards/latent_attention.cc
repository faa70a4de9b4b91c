#include "models/shards/latent_attention.h"

#include <optional>

#include "models/shards/head_grid.h"

namespace moec {
namespace {

// A stored matrix with `each` rows per head, as [heads, each, columns].
struct HeadMatrix {
  WeightView view;
  int64_t heads, columns;
};

HeadMatrix head_matrix(const ShardScope& scope, std::string role, int64_t each, int64_t columns) {
  const int64_t heads = scope.attention().heads;
  WeightView stored = scope.stored(std::move(role), {heads * each, columns});
  return {then(std::move(stored), ReshapeStep{{heads, each, columns}}), heads, columns};
}

// Per head, the rows that map the latent to keys, followed by those that map it to values.
HeadMatrix keys_and_values(const ShardScope& scope) {
  const LatentConfig& latent = *scope.attention().latent;
  return head_matrix(scope, "kv_b", latent.key_dims + latent.value_dims, latent.kv_rank);
}

// Rows [begin, begin + size) per head, as [heads, size, columns].
WeightView rows_of_heads(HeadMatrix matrix, int64_t begin, int64_t size) {
  return then(std::move(matrix.view), SliceStep{1, begin, size});
}

ValueId projected(ShardScope& scope, ValueId x, WeightView rows, const std::string& name,
                  std::optional<WeightView> bias = std::nullopt) {
  std::vector<ValueId> operands = {x, scope.weight(std::move(rows), name + ".weight")};
  if (bias) operands.push_back(scope.weight(std::move(*bias), name + ".bias"));
  return scope.b.emit(Linear{}, std::move(operands), name);
}

// Input of the query matrix: the latent of the queries, or the normed input.
ValueId query_input(ShardScope& scope, ValueId normed) {
  const AttentionConfig& attention = scope.attention();
  const LatentConfig& latent = *attention.latent;
  if (latent.q_rank == 0) return normed;
  ValueId low = scope.linear(normed, {"q_a", latent.q_rank, attention.qkv_bias}, "q_a");
  return scope.rms_norm(low, "q_a_norm", latent.norm_eps);
}

// The product of rows [begin, begin + size) per head with x: [1, heads, size, T].
ValueId part_of_heads(ShardScope& scope, ValueId x, const HeadMatrix& all, int64_t begin,
                      int64_t size, const std::string& name) {
  WeightView rows =
      then(rows_of_heads(all, begin, size), ReshapeStep{{all.heads * size, all.columns}});
  return to_grid(scope.b, projected(scope, x, std::move(rows), name), all.heads);
}

// Kᵀ per head: [1, heads, c, key_dims]. With the latent cache, the score q · (K c) for a latent c
// is computed as (Kᵀ q) · c, so that keys per head are never needed.
ValueId key_maps(ShardScope& scope) {
  const AttentionConfig& attention = scope.attention();
  const LatentConfig& latent = *attention.latent;
  WeightView keys =
      then(rows_of_heads(keys_and_values(scope), 0, latent.key_dims), PermuteStep{{0, 2, 1}});
  keys = then(std::move(keys), ReshapeStep{{1, attention.heads, latent.kv_rank, latent.key_dims}});
  return scope.weight(std::move(keys), "k_b.weight");
}

// The queries per head: first the rotated dims, because attention rotates leading dims, then the
// content. Checkpoints store them in the other order, so the rows are sliced in two parts.
ValueId queries(ShardScope& scope, ValueId normed) {
  const AttentionConfig& attention = scope.attention();
  const LatentConfig& latent = *attention.latent;
  Builder& b = scope.b;
  ValueId x = query_input(scope, normed);
  const HeadMatrix all = head_matrix(scope, latent.q_rank == 0 ? "q" : "q_b",
                                     latent.key_dims + latent.shared_dims, channels_of(b.type(x)));
  ValueId position =
      part_of_heads(scope, x, all, latent.key_dims, latent.shared_dims, "q_position");
  ValueId content = part_of_heads(scope, x, all, 0, latent.key_dims, "q_content");
  if (!latent.expanded) content = b.matmul(key_maps(scope), content);
  const Type like = b.type(normed);  // a copy: adding an op may reallocate the builder's types
  return from_grid(b, b.concat({position, content}, kHeadChannels), like, "q");
}

// The sources of a token's keys and values: the position dims, which are rotated, and the latent.
struct LatentRow {
  ValueId position, latent;
};

LatentRow latent_row(ShardScope& scope, ValueId normed) {
  const AttentionConfig& attention = scope.attention();
  const LatentConfig& latent = *attention.latent;
  const int64_t all = latent.kv_rank + latent.shared_dims;
  auto rows = [&](int64_t begin, int64_t size, const std::string& name) {
    const SliceStep cut{0, begin, size};
    std::optional<WeightView> bias;
    if (attention.qkv_bias) bias = then(scope.stored("kv_a_bias", {all}), cut);
    WeightView matrix = scope.stored("kv_a", {all, scope.model().hidden});
    return projected(scope, normed, then(std::move(matrix), cut), name, std::move(bias));
  };
  ValueId position = rows(latent.kv_rank, latent.shared_dims, "k_position");
  ValueId low = rows(0, latent.kv_rank, "kv_a");
  return {position, scope.rms_norm(low, "kv_a_norm", latent.norm_eps)};
}

// The keys of all heads: the shared position dims, then the head's content dims. Multiplication by
// ones broadcasts the position dims to all heads; no other form of broadcast is supported by all
// targets.
ValueId expanded_keys(ShardScope& scope, const LatentRow& row) {
  const AttentionConfig& attention = scope.attention();
  Builder& b = scope.b;
  ValueId content = part_of_heads(scope, row.latent, keys_and_values(scope), 0,
                                  attention.latent->key_dims, "k_content");
  const Type like = b.type(row.latent);
  ValueId each = b.constant(scope.type_of({1, attention.heads, 1, 1}), {1}, "each_head");
  ValueId position = b.mul(to_grid(b, row.position, 1), each, "k_position.of_heads");
  return from_grid(b, b.concat({position, content}, kHeadChannels), like, "k");
}

ValueId expanded_values(ShardScope& scope, const LatentRow& row) {
  const AttentionConfig& attention = scope.attention();
  const LatentConfig& latent = *attention.latent;
  WeightView rows = then(rows_of_heads(keys_and_values(scope), latent.key_dims, latent.value_dims),
                         ReshapeStep{{attention.heads * latent.value_dims, latent.kv_rank}});
  return projected(scope, row.latent, std::move(rows), "v");
}

}  // namespace

LatentOperands latent_operands(ShardScope& scope, ValueId normed) {
  ValueId q = queries(scope, normed);
  const LatentRow row = latent_row(scope, normed);
  if (scope.attention().latent->expanded)
    return {q, expanded_keys(scope, row), expanded_values(scope, row)};
  return {q, scope.b.concat({row.position, row.latent}, kChannelAxis, "k"), row.latent};
}

ValueId latent_values(ShardScope& scope, ValueId attended) {
  const AttentionConfig& attention = scope.attention();
  const LatentConfig& latent = *attention.latent;
  if (latent.expanded) return attended;
  Builder& b = scope.b;
  WeightView values =
      then(rows_of_heads(keys_and_values(scope), latent.key_dims, latent.value_dims),
           ReshapeStep{{1, attention.heads, latent.value_dims, latent.kv_rank}});
  ValueId out = b.matmul(scope.weight(std::move(values), "v_b.weight"),
                         to_grid(b, attended, attention.heads));
  const Type like = b.type(attended);
  return from_grid(b, out, like, "values");
}

}  // namespace moec
