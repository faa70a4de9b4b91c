#include "backends/targets/read_rule.h"

#include <algorithm>
#include <array>

namespace moec {
namespace {

// The strength of the evidence for a rule, strongest first.
constexpr std::array<std::string_view, 4> kConfidences = {"documented", "measured",
                                                          "reverse-engineered", "folklore"};

// These conditions compare with no number; all others have a `limit`.
constexpr std::array kWithoutLimit = {RuleCondition::op_is,
                                      RuleCondition::dtype_is,
                                      RuleCondition::axis_is,
                                      RuleCondition::slice_offset,
                                      RuleCondition::widths_ranged,
                                      RuleCondition::state_functions,
                                      RuleCondition::fused_activation,
                                      RuleCondition::coded_matmul_uneven,
                                      RuleCondition::scalar_constant};

bool has_limit(RuleCondition condition) {
  return std::find(kWithoutLimit.begin(), kWithoutLimit.end(), condition) == kWithoutLimit.end();
}

bool needs_axes(RuleCondition condition) {
  return condition == RuleCondition::axis_is || condition == RuleCondition::slice_offset;
}

bool takes_axes(RuleCondition condition) {
  return needs_axes(condition) || condition == RuleCondition::extent_above;
}

Status read_ops(JsonFields& fields, OpSet& ops) {
  return fields.named("ops", OpSet::named, [&](const OpSet& named) { ops |= named; });
}

template <class E>
Status read_names(JsonFields& fields, std::string_view name, std::vector<E>& out) {
  return fields.named(
      name, [](const std::string& text) { return parse_enum<E>(text); },
      [&](E value) { out.push_back(value); });
}

Status read_condition(JsonFields& fields, TargetRule& rule) {
  MOEC_TRY(fields.choice("condition", rule.condition));
  const bool by_op =
      rule.condition == RuleCondition::op_is || rule.condition == RuleCondition::fused_activation;
  if (has_limit(rule.condition)) MOEC_TRY(fields.positive("limit", rule.limit));
  if (by_op || (fields.has("ops") && !concerns_shards(rule.condition)))
    MOEC_TRY(read_ops(fields, rule.ops));
  if (needs_axes(rule.condition) || (takes_axes(rule.condition) && fields.has("axes")))
    MOEC_TRY(read_names(fields, "axes", rule.axes));
  if (rule.condition == RuleCondition::dtype_is)
    MOEC_TRY(
        fields.named("dtypes", parse_dtype, [&](DType dtype) { rule.dtypes.push_back(dtype); }));
  if (concerns_shards(rule.condition) && fields.has("kinds"))
    MOEC_TRY(read_names(fields, "kinds", rule.kinds));
  return {};
}

}  // namespace

Result<TargetRule> read_rule(JsonFields& fields) {
  TargetRule rule;
  MOEC_TRY(fields.text("id", rule.id));
  if (rule.id.empty()) return fields.bad("id", "must not be empty");
  MOEC_TRY(read_condition(fields, rule));
  if (fields.has("chips")) MOEC_TRY(fields.texts("chips", rule.chips));
  MOEC_TRY(fields.choice("severity", rule.severity));
  MOEC_TRY(fields.text("unit", rule.unit));
  MOEC_TRY(fields.text("reason", rule.reason));
  MOEC_TRY(read_confidence(fields, rule.confidence));
  MOEC_TRY(fields.text("source", rule.source));
  MOEC_TRY(fields.finish());
  return rule;
}

Status read_confidence(JsonFields& fields, std::string& confidence) {
  MOEC_ASSIGN(const size_t index, fields.one_of("confidence", kConfidences));
  confidence = kConfidences[index];
  return {};
}

}  // namespace moec
