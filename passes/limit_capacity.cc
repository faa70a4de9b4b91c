#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/graph/port_names.h"
#include "passes/choose_top.h"
#include "passes/passes.h"
#include "passes/rewrite_each.h"

namespace moec {
namespace {

// A triangular matrix [tokens, tokens] of ones, upper or lower, diagonal included.
std::vector<double> triangle(int64_t tokens, bool upper) {
  std::vector<double> ones;
  for (int64_t row = 0; row < tokens; ++row)
    for (int64_t column = 0; column < tokens; ++column)
      ones.push_back((upper ? row <= column : column <= row) ? 1 : 0);
  return ones;
}

// For each expert and token, the number of tokens up to and including this token that chose the
// expert.
ValueId count_up_to(Builder& b, ValueId chosen) {
  const Type type = b.type(chosen);
  const int64_t channels = channels_of(type), tokens = tokens_of(type);
  if (type.layout == Layout::rows) {
    ValueId lower = b.constant({type.dtype, {tokens, tokens}}, triangle(tokens, false), "up_to");
    ValueId counts = b.matmul(lower, b.reshape(chosen, {tokens, channels}), "counts");
    return b.reshape(counts, type.dims, type.layout);
  }
  ValueId upper = b.constant({type.dtype, {1, 1, tokens, tokens}}, triangle(tokens, true), "up_to");
  ValueId counts = b.matmul(b.reshape(chosen, {1, 1, channels, tokens}), upper, "counts");
  return b.reshape(counts, type.dims, type.layout);
}

// Returns the weights, set to 0 for each expert that `most` earlier tokens have already chosen.
ValueId first_tokens(Builder& b, ValueId weights, int64_t most) {
  const DType dtype = b.type(weights).dtype;
  ValueId zero = b.scalar_like(weights, 0);
  ValueId chosen = b.cast(b.compare(CompareFn::less, zero, weights), dtype, "chosen_experts");
  ValueId counts = count_up_to(b, chosen);
  ValueId limit = b.scalar_like(counts, static_cast<double>(most) + 0.5);
  ValueId within = b.cast(b.compare(CompareFn::less, counts, limit), dtype, "within_capacity");
  return b.mul(weights, within);
}

Status check_tokens(const Shard& shard, const Op& op) {
  const Type& logits = shard.type(op.operands[0]);
  const int64_t most = std::min<int64_t>(exact_count(logits.dtype), kMaxCapacityTokens);
  if (tokens_of(logits) <= most) return {};
  return fail("capacity.tokens",
              fmt::format("{} tokens per step exceed the {} among which capacity can be counted",
                          tokens_of(logits), most),
              "reduce --tokens, or omit --capacity",
              {.shard = shard.name, .op = shard.label(op.results[0])});
}

Diagnostic capacity_note(const Shard& shard, const Op& op, int64_t most) {
  return {Severity::warning,
          "routing.capacity",
          fmt::format("an expert processes at most {} of {} tokens per step and drops the others",
                      most, tokens_of(shard.type(op.operands[0]))),
          "omit --capacity for the model's exact results",
          {.shard = shard.name, .op = shard.label(op.results[0])}};
}

}  // namespace

int64_t expert_capacity(double factor, int64_t tokens, int64_t top_k, int64_t experts) {
  const double share = factor * static_cast<double>(tokens) * static_cast<double>(top_k) /
                       static_cast<double>(experts);
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(std::min(share, 1e9))), 1, tokens);
}

Result<Shard> limit_capacity(const Shard& shard, PassContext& context) {
  const double factor = context.options.capacity;
  const auto most_of = [&](const Op& op) {
    const Type& logits = shard.type(op.operands[0]);
    return expert_capacity(factor, tokens_of(logits), std::get<Router>(op.data).top_k,
                           channels_of(logits));
  };
  const auto drops = [&](const Op& op) {
    return most_of(op) < tokens_of(shard.type(op.operands[0]));
  };
  for (const Op& op : shard.ops) {
    if (!std::holds_alternative<Router>(op.data) || !drops(op)) continue;
    MOEC_TRY(check_tokens(shard, op));
    context.notes.push_back(capacity_note(shard, op, most_of(op)));
  }
  auto limit = [&](Builder& b, const Router& op, const std::vector<ValueId>& operands) {
    const Type logits = b.type(operands[0]);
    const int64_t tokens = tokens_of(logits);
    const int64_t most = expert_capacity(factor, tokens, op.top_k, channels_of(logits));
    if (most == tokens) return std::vector<ValueId>{b.emit(op, operands)};
    return std::vector<ValueId>{
        first_tokens(b, b.emit(op, operands, std::string(kUncappedWeights)), most)};
  };
  return rewrite_each<Router>(shard, shard.form, outer_scope, limit);
}

}  // namespace moec
