#include "ir/target/target_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/analysis/cost.h"
#include "ir/analysis/fused_forms.h"
#include "ir/base/at.h"
#include "ir/base/enum_table.h"

namespace moec {
namespace {

// An empty list means that the rule has no restriction.
template <class T>
bool allowed(const std::vector<T>& items, const T& item) {
  return items.empty() || std::find(items.begin(), items.end(), item) != items.end();
}

bool is_long(const TargetRule& rule, const Type& type) {
  for (int64_t i = 0; i < type.rank(); ++i)
    if (type.dims.at(i) > rule.limit && allowed(rule.axes, axis_at(type.rank(), i))) return true;
  return false;
}

bool is_beyond(const OpData& data, int64_t limit) {
  const auto* constant = std::get_if<Constant>(&data);
  // Negated, so that NaN is beyond the limit, too.
  return constant && std::any_of(constant->values.begin(), constant->values.end(), [&](double x) {
           return !(std::abs(x) <= static_cast<double>(limit));
         });
}

// The axis along which an op operates, if it has one.
std::optional<int64_t> axis_of(const auto& op) {
  if constexpr (requires { op.axis; })
    return op.axis;
  else
    return std::nullopt;
}

// Checks the conditions of one rule on one op.
class OpRule {
 public:
  OpRule(const TargetRule& rule, const Shard& shard, const Op& op)
      : rule_(rule), shard_(shard), op_(op) {}

  bool is_broken() const {
    // Indexed by condition. Conditions on whole shards have no entry: find_shard_breaches() checks
    // them.
    static constexpr auto kChecks = enum_table<RuleCondition, bool (OpRule::*)() const>({
        &OpRule::always,                // op_is: RulesByOp has chosen the op
        &OpRule::has_dtype,             // dtype_is
        &OpRule::has_rank_above,        // rank_above
        &OpRule::has_extent_above,      // extent_above
        &OpRule::has_operands_above,    // operands_above
        &OpRule::is_constant_beyond,    // constant_beyond
        &OpRule::works_along_axis,      // axis_is
        &OpRule::slices_at_offset,      // slice_offset
        &OpRule::is_small_matmul,       // matmul_within
        &OpRule::has_payload_near_mib,  // payload_near_mib
        &OpRule::acts_on_projection,    // fused_activation
        &OpRule::slices_narrowly,       // narrow_slice
        &OpRule::is_coded_below,        // coded_matmul_below
        &OpRule::has_uneven_blocks,     // coded_matmul_uneven
        &OpRule::has_scalar_constant,   // scalar_constant
        &OpRule::is_exp_below,          // exp_below
        &OpRule::is_grouped_conv,       // grouped_conv
        nullptr,                        // weight_bytes_above
        nullptr,                        // weight_bytes_below
        nullptr,                        // tokens_above
        nullptr,                        // states_above
        nullptr,                        // ports_unaligned
        nullptr,                        // widths_ranged
        nullptr,                        // state_functions
    });
    const auto check = at(kChecks, rule_.condition);
    return check != nullptr && (this->*check)();
  }

 private:
  template <class Predicate>
  bool any_value(Predicate holds) const {
    auto of = [&](ValueId id) { return holds(shard_.type(id)); };
    return std::any_of(op_.results.begin(), op_.results.end(), of) ||
           std::any_of(op_.operands.begin(), op_.operands.end(), of);
  }

  bool always() const { return true; }
  bool has_dtype() const {
    return any_value([&](const Type& type) { return allowed(rule_.dtypes, type.dtype); });
  }
  bool has_rank_above() const {
    return any_value([&](const Type& type) { return type.rank() > rule_.limit; });
  }
  bool has_extent_above() const {
    return any_value([&](const Type& type) { return is_long(rule_, type); });
  }
  bool has_operands_above() const { return std::ssize(op_.operands) > rule_.limit; }
  bool is_constant_beyond() const { return is_beyond(op_.data, rule_.limit); }
  bool slices_at_offset() const {
    const auto* slice = std::get_if<Slice>(&op_.data);
    return slice != nullptr && slice->begin > 0 && works_along_axis();
  }

  bool works_along_axis() const {
    const auto axis = std::visit([](const auto& op) { return axis_of(op); }, op_.data);
    // axis_of() refers to the first operand, so axis_at() needs the rank of this operand.
    const size_t rank = axis ? shard_.type(op_.operands[0]).rank() : 0;
    return axis && allowed(rule_.axes, axis_at(rank, static_cast<size_t>(*axis)));
  }

  bool is_small_matmul() const {
    if (!std::holds_alternative<MatMul>(op_.data)) return false;
    const Dims& a = shard_.type(op_.operands[0]).dims;
    const Dims& b = shard_.type(op_.operands[1]).dims;
    // The three sizes of a matmul: rows, inner size and columns.
    return std::max({a[a.size() - 2], a.back(), b.back()}) <= rule_.limit;
  }

  bool has_payload_near_mib() const {
    if (!std::holds_alternative<Conv>(op_.data)) return false;
    // Each core loads the weights of ceil(rows / 16) output channels. A payload near a multiple of
    // 1 MiB lowers the bandwidth to less than half (source: stablehlo-coreml PR #110).
    constexpr int64_t kCores = 16, kMib = int64_t{1} << 20;
    const ValueId weight = op_.operands[1];
    const Type& type = shard_.type(weight);
    const int64_t rows = (type.dims[0] + kCores - 1) / kCores;
    const bool stored = shard_.producer_as<Weight>(weight) != nullptr;
    const int64_t bytes = stored ? filed_weight_bytes(shard_, weight) : type.bytes();
    const int64_t payload = rows * (bytes / type.dims[0]);
    // A payload below 1 MiB has no multiple below it, and a payload near 0 is not slow.
    return payload + rule_.limit >= kMib &&
           std::min(payload % kMib, kMib - payload % kMib) <= rule_.limit;
  }

  bool acts_on_projection() const {
    return std::any_of(op_.operands.begin(), op_.operands.end(),
                       [&](ValueId operand) { return is_projection(shard_, operand); });
  }
  bool slices_narrowly() const { return is_narrow_slice(shard_, op_, rule_.limit); }
  bool has_uneven_blocks() const { return is_coded_unevenly(shard_, op_); }
  bool is_coded_below() const {
    return is_coded_matmul(shard_, op_) && shard_.type(op_.operands[0]).rank() < rule_.limit;
  }

  bool is_exp_below() const { return is_exp_below_limit(shard_, op_, rule_.limit); }
  bool is_grouped_conv() const {
    const auto* conv = std::get_if<Conv>(&op_.data);
    // A filter has the sizes [outputs, channels per group, taps, 1].
    return conv && conv->groups > 1 && shard_.type(op_.operands[1]).dims.at(1) > 1 && has_dtype();
  }
  bool has_scalar_constant() const {
    return std::any_of(op_.operands.begin(), op_.operands.end(), [&](ValueId operand) {
      return shard_.producer_as<Constant>(operand) != nullptr &&
             shard_.type(operand).elements() == 1;
    });
  }

  const TargetRule& rule_;
  const Shard& shard_;
  const Op& op_;
};

// Caches the applicable rules per kind of op. Most rules name few kinds, so this avoids most checks
// for the thousands of ops in a shard.
class RulesByOp {
 public:
  explicit RulesByOp(const Target& target) : target_(target), known_(OpSet::kPositions) {}

  const std::vector<const TargetRule*>& operator[](const OpData& data) {
    // The position includes the function of an op, because a rule can name a single function.
    auto& rules = known_[OpSet::position(data)];
    if (!rules) rules = collect(data);
    return *rules;
  }

 private:
  std::vector<const TargetRule*> collect(const OpData& data) const {
    std::vector<const TargetRule*> rules;
    for (const TargetRule& rule : target_.rules)
      if (!concerns_shards(rule.condition) && (rule.ops.empty() || rule.ops.contains(data)))
        rules.push_back(&rule);
    return rules;
  }

  const Target& target_;
  std::vector<std::optional<std::vector<const TargetRule*>>> known_;
};

const Type* unaligned_port(const Shard& shard, int64_t bytes) {
  auto unaligned = [&](const Type& type) {
    // A scalar port has no last axis.
    return type.rank() > 0 && type.dims.back() * dtype_bytes(type.dtype) % bytes != 0;
  };
  for (ValueId input : shard.inputs)
    if (unaligned(shard.type(input))) return &shard.type(input);
  for (const Output& output : shard.outputs)
    if (unaligned(shard.type(output.value))) return &shard.type(output.value);
  return nullptr;
}

// ---- Conditions on whole shards. Each returns a description of the breach, or empty.
// -------------

std::string weight_bytes_above(const TargetRule& rule, const Shard& shard,
                               const ShardFacts& facts) {
  const int64_t bytes = facts.weight_bytes.value_or(filed_weight_bytes(shard));
  if (bytes <= rule.limit) return {};
  return fmt::format("weights of {} bytes are above {}", bytes, rule.limit);
}

std::string weight_bytes_below(const TargetRule& rule, const Shard& shard,
                               const ShardFacts& facts) {
  const int64_t bytes = facts.weight_bytes.value_or(filed_weight_bytes(shard));
  if (bytes >= rule.limit) return {};
  return fmt::format("weights of {} bytes are below {}", bytes, rule.limit);
}

std::string tokens_above(const TargetRule& rule, const Shard&, const ShardFacts& facts) {
  if (facts.tokens <= rule.limit) return {};
  return fmt::format("{} tokens per run are above {}", facts.tokens, rule.limit);
}

std::string states_above(const TargetRule& rule, const Shard& shard, const ShardFacts&) {
  const auto states = std::ssize(shard.states);
  return states > rule.limit ? fmt::format("{} states are above {}", states, rule.limit) : "";
}

std::string ports_unaligned(const TargetRule& rule, const Shard& shard, const ShardFacts&) {
  const Type* type = unaligned_port(shard, rule.limit);
  if (type == nullptr) return {};
  return fmt::format("the last axis of port type {} is not a multiple of {} bytes",
                     to_string(*type), rule.limit);
}

std::string widths_ranged(const TargetRule&, const Shard&, const ShardFacts& facts) {
  return facts.ranged ? "the file accepts a range of token widths" : "";
}

std::string state_functions(const TargetRule&, const Shard& shard, const ShardFacts& facts) {
  const auto states = std::ssize(shard.states);
  // The rule concerns several functions that share states, with several tokens per run.
  if (facts.functions < 2 || states == 0 || facts.tokens < 2) return {};
  return fmt::format("{} functions share {} states, with up to {} tokens", facts.functions, states,
                     facts.tokens);
}

std::string shard_breach(const TargetRule& rule, const Shard& shard, const ShardFacts& facts) {
  using Check = std::string (*)(const TargetRule&, const Shard&, const ShardFacts&);
  // Indexed by condition. Conditions on single ops have no entry: OpRule checks them.
  static constexpr auto kChecks = enum_table<RuleCondition, Check>({
      nullptr,  // op_is
      nullptr,  // dtype_is
      nullptr,  // rank_above
      nullptr,  // extent_above
      nullptr,  // operands_above
      nullptr,  // constant_beyond
      nullptr,  // axis_is
      nullptr,  // slice_offset
      nullptr,  // matmul_within
      nullptr,  // payload_near_mib
      nullptr,  // fused_activation
      nullptr,  // narrow_slice
      nullptr,  // coded_matmul_below
      nullptr,  // coded_matmul_uneven
      nullptr,  // scalar_constant
      nullptr,  // exp_below
      nullptr,  // grouped_conv
      weight_bytes_above,
      weight_bytes_below,
      tokens_above,
      states_above,
      ports_unaligned,
      widths_ranged,
      state_functions,
  });
  const Check check = at(kChecks, rule.condition);
  return check == nullptr ? "" : check(rule, shard, facts);
}

}  // namespace

bool concerns(const TargetRule& rule, ShardKind kind) {
  return concerns_shards(rule.condition) && allowed(rule.kinds, kind);
}

std::vector<OpBreach> find_breaches(const Target& target, const Shard& shard) {
  RulesByOp rules(target);
  std::vector<OpBreach> breaches;
  for (OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    for (const TargetRule* rule : rules[op.data])
      if (OpRule(*rule, shard, op).is_broken()) breaches.push_back({id, rule});
  }
  return breaches;
}

IdMap<OpId, PredictedUnit> predict_units(const Target& target, const Shard& shard) {
  IdMap<OpId, PredictedUnit> units(shard.ops.size(), {target.unit, nullptr});
  for (const auto& [op, rule] : find_breaches(target, shard)) {
    const bool is_error = rule->severity == Severity::error;
    const TargetRule* former = units[op].rule;
    const bool moves = is_error || !rule->unit.empty();
    // An error takes precedence over a rule with a unit. Otherwise, the first rule is kept.
    if (!moves || (former && (former->severity == Severity::error || !is_error))) continue;
    // An error without a unit means that no unit can run the op.
    units[op] = {rule->unit.empty() ? kNoUnit : std::string_view(rule->unit), rule};
  }
  return units;
}

std::vector<ShardBreach> find_shard_breaches(const Target& target, const Shard& shard,
                                             const ShardFacts& facts) {
  std::vector<ShardBreach> breaches;
  for (const TargetRule& rule : target.rules) {
    if (!concerns(rule, facts.kind)) continue;
    if (std::string what = shard_breach(rule, shard, facts); !what.empty())
      breaches.push_back({&rule, std::move(what)});
  }
  return breaches;
}

}  // namespace moec
