#include "backends/targets/load_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "embedded/embedded_targets.h"
#include "ir/base/at.h"
#include "ir/base/json_fields.h"
#include "ir/base/nearest.h"
#include "ir/target/target.h"

namespace moec {

namespace {

// Conditions that are meaningless without axes. Without axes, extent_above applies to all axes.
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

// Conditions without a `limit`; all other conditions compare with one.
constexpr std::array kWithoutLimit = {RuleCondition::op_is,
                                      RuleCondition::dtype_is,
                                      RuleCondition::axis_is,
                                      RuleCondition::slice_offset,
                                      RuleCondition::widths_ranged,
                                      RuleCondition::state_functions,
                                      RuleCondition::fused_activation,
                                      RuleCondition::coded_matmul_uneven,
                                      RuleCondition::scalar_constant,
                                      RuleCondition::grouped_conv};

bool has_limit(RuleCondition condition) {
  return std::find(kWithoutLimit.begin(), kWithoutLimit.end(), condition) == kWithoutLimit.end();
}

Status read_condition(JsonFields& fields, TargetRule& rule) {
  MOEC_TRY(fields.choice("condition", rule.condition));
  const bool by_op =
      rule.condition == RuleCondition::op_is || rule.condition == RuleCondition::fused_activation;
  if (has_limit(rule.condition)) MOEC_TRY(fields.positive("limit", rule.limit));
  // Reads a field only if the condition uses it. JsonFields::finish() reports other fields as
  // unknown, so a misplaced field is never ignored silently. Conditions on whole shards have no
  // ops.
  if (by_op || (fields.has("ops") && !concerns_shards(rule.condition)))
    MOEC_TRY(read_ops(fields, rule.ops));
  if (needs_axes(rule.condition) || (takes_axes(rule.condition) && fields.has("axes")))
    MOEC_TRY(read_names(fields, "axes", rule.axes));
  if (rule.condition == RuleCondition::dtype_is || rule.condition == RuleCondition::grouped_conv)
    MOEC_TRY(
        fields.named("dtypes", parse_dtype, [&](DType dtype) { rule.dtypes.push_back(dtype); }));
  if (concerns_shards(rule.condition) && fields.has("kinds"))
    MOEC_TRY(read_names(fields, "kinds", rule.kinds));
  return {};
}

// Kinds of evidence for a rule, strongest first.
constexpr std::array<std::string_view, 4> kConfidences = {"documented", "measured",
                                                          "reverse-engineered", "folklore"};

Status read_confidence(JsonFields& fields, std::string& confidence) {
  // The rule stores text, because `confidence` is only shown, never compared.
  MOEC_ASSIGN(const size_t index, fields.one_of("confidence", kConfidences));
  confidence = kConfidences[index];
  return {};
}

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

// The next step of errors in a target file.
constexpr std::string_view kNextStep =
    "compare with backends/targets/onnx.json, which has every field";

Status read_dtype(JsonFields& fields, DType& dtype) {
  std::string name;
  MOEC_TRY(fields.text("dtype", name));
  const auto parsed = parse_dtype(name);
  // parse_dtype() also accepts integers and booleans, which activations cannot have.
  if (!parsed || !is_float(*parsed)) return fields.bad("dtype", "must be f32, f16 or bf16");
  dtype = *parsed;
  return {};
}

Status read_min_coverage(JsonFields& fields, int64_t& percent) {
  MOEC_TRY(fields.whole("min_coverage", percent));
  if (percent > 100) return fields.bad("min_coverage", "must be a percentage of at most 100");
  return {};
}

// A rule may name only chip families of the target.
Status check_chips(const Target& target, const TargetRule& rule, const JsonFields& fields) {
  for (const std::string& chip : rule.chips)
    if (std::none_of(target.chips.begin(), target.chips.end(),
                     [&](const ChipFamily& family) { return family.name == chip; }))
      return fields.bad("chips", fmt::format("has the unknown chip family \"{}\" in rule {}",
                                             printable(chip, 60), printable(rule.id, 60)));
  return {};
}

Status read_chips(JsonFields& fields, Target& target) {
  target.chips.clear();
  MOEC_TRY(fields.each("chips", [&](JsonFields& chip) -> Status {
    ChipFamily family;
    MOEC_TRY(chip.text("family", family.name));
    MOEC_TRY(chip.texts("chips", family.chips));
    MOEC_TRY(chip.text("about", family.about));
    MOEC_TRY(chip.finish());
    target.chips.push_back(std::move(family));
    return {};
  }));
  for (const TargetRule& inherited : target.rules) MOEC_TRY(check_chips(target, inherited, fields));
  return {};
}

// A rule with the id of an inherited rule replaces it; other rules follow the inherited ones.
void add_rule(std::vector<TargetRule>& rules, TargetRule rule) {
  const auto inherited = std::find_if(rules.begin(), rules.end(),
                                      [&](const TargetRule& other) { return other.id == rule.id; });
  if (inherited == rules.end())
    rules.push_back(std::move(rule));
  else
    *inherited = std::move(rule);
}

Status read_rules(JsonFields& fields, Target& target) {
  // Messages and `moec check --explain` identify a rule by its id alone, so an id must be unique
  // within a file.
  std::set<std::string> ids;
  return fields.each("rules", [&](JsonFields& item) -> Status {
    MOEC_ASSIGN(TargetRule rule, read_rule(item));
    if (!ids.insert(rule.id).second)
      return item.bad("id", fmt::format("is \"{}\", which an earlier rule already has",
                                        printable(rule.id, 60)));
    MOEC_TRY(check_chips(target, rule, item));
    add_rule(target.rules, std::move(rule));
    return {};
  });
}

// True for a weight form, or one with groups of any size (":g*").
bool is_form_entry(const std::string& text) {
  constexpr std::string_view kAnyGroup = ":g*";
  if (!text.ends_with(kAnyGroup)) return parse_weight_form(text).has_value();
  // parse_weight_form() requires a number as the group size, so 1 replaces the "*".
  return parse_weight_form(text.substr(0, text.size() - 1) + "1").has_value();
}

Status read_weight_form(JsonFields& fields, TargetWeightForms& entry) {
  MOEC_TRY(fields.texts("forms", entry.forms));
  for (const std::string& form : entry.forms)
    if (!is_form_entry(form))
      return fields.bad("forms", fmt::format("has the unknown form \"{}\"", printable(form, 60)));
  if (fields.has("projections"))
    MOEC_TRY(fields.named(
        "projections", [](const std::string& name) { return parse_enum<ProjectionForm>(name); },
        [&](ProjectionForm projection) { entry.projections.push_back(projection); }));
  MOEC_TRY(fields.choice("severity", entry.severity));
  MOEC_TRY(fields.text("reason", entry.reason));
  MOEC_TRY(read_confidence(fields, entry.confidence));
  MOEC_TRY(fields.text("source", entry.source));
  return fields.finish();
}

Status read_engine(JsonFields& fields, TargetEngine& engine) {
  // All are optional: their defaults fit most engines.
  if (fields.has("expand_sigmoid"))
    MOEC_TRY(fields.boolean("expand_sigmoid", engine.expand_sigmoid));
  if (fields.has("has_moe")) MOEC_TRY(fields.boolean("has_moe", engine.has_moe));
  if (fields.has("decoder_graph")) MOEC_TRY(fields.boolean("decoder_graph", engine.decoder_graph));
  if (fields.has("matrix_rows")) MOEC_TRY(fields.boolean("matrix_rows", engine.matrix_rows));
  if (fields.has("splits_zeros")) MOEC_TRY(fields.boolean("splits_zeros", engine.splits_zeros));
  if (!fields.has("coded_matmul_rank")) return {};
  int64_t& rank = engine.coded_matmul_rank;
  MOEC_TRY(fields.whole("coded_matmul_rank", rank));
  if (rank != 2 && rank != 3) return fields.bad("coded_matmul_rank", "must be 2 or 3");
  return {};
}

// Optional: without these fields, the target has the inherited entries, or accepts only float
// weights.
Status read_weights(JsonFields& fields, Target& target) {
  if (fields.has("four_bits")) {
    std::string text;
    MOEC_TRY(fields.text("four_bits", text));
    const auto form = parse_weight_form(text);
    if (!form) return fields.bad("four_bits", "is not a weight form");
    target.four_bits = *form;
  }
  if (!fields.has("weights")) return {};
  target.weights.clear();
  return fields.each("weights", [&](JsonFields& item) -> Status {
    return read_weight_form(item, target.weights.emplace_back());
  });
}

// The target that the file extends, or an empty one.
Result<Target> read_base(JsonFields& fields) {
  if (!fields.has("extends")) return Target{};
  std::string name;
  MOEC_TRY(fields.text("extends", name));
  auto base = builtin_target(name);
  if (!base)
    return fields.bad("extends",
                      fmt::format("is \"{}\", but must be one of {}", printable(name, 60),
                                  fmt::join(builtin_target_names(), ", ")));
  return base;
}

// Reads the fields whose values replace inherited ones. `given(name)` is true for a field that must
// be read.
template <class Given>
Status read_forms(JsonFields& fields, const Given& given, Target& target) {
  if (given("unit")) MOEC_TRY(fields.text("unit", target.unit));
  if (given("format")) MOEC_TRY(fields.choice("format", target.format));
  if (given("dtype")) MOEC_TRY(read_dtype(fields, target.dtype));
  if (given("projection")) MOEC_TRY(fields.choice("projection", target.projection));
  if (given("sum")) MOEC_TRY(fields.choice("sum", target.sum));
  if (given("attention")) MOEC_TRY(fields.choice("attention", target.attention));
  if (given("has_state")) MOEC_TRY(fields.boolean("has_state", target.has_state));
  if (given("min_coverage")) MOEC_TRY(read_min_coverage(fields, target.min_coverage));
  return {};
}

// The order of the reads matters in two places: check_chips() compares the rules with the chips,
// and the limits follow from all rules.
Result<Target> read_target(JsonFields fields) {
  MOEC_ASSIGN(Target target, read_base(fields));
  // Every field is required, except in a file that extends a target.
  const auto given = [&, extends = fields.has("extends")](std::string_view name) {
    return !extends || fields.has(name);
  };
  MOEC_TRY(fields.text("name", target.name));
  MOEC_TRY(read_forms(fields, given, target));
  if (given("chips")) MOEC_TRY(read_chips(fields, target));
  if (given("rules")) MOEC_TRY(read_rules(fields, target));
  MOEC_TRY(read_weights(fields, target));
  MOEC_TRY(read_engine(fields, target.engine));
  if (target.engine.decoder_graph && target.format != ShardFormat::onnx &&
      target.format != ShardFormat::tflite)
    return fields.bad("decoder_graph", "requires the format onnx or tflite");
  MOEC_TRY(fields.finish());
  target.limits = derive_limits(target.rules);
  return target;
}

}  // namespace

Result<Target> load_target(std::string_view text, const std::string& file) {
  const JsonReport report(text, file, JsonCodes::by_prefix("target", std::string(kNextStep)));
  MOEC_ASSIGN(const JsonValue root, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  return read_target(std::move(fields));
}

std::vector<std::string_view> builtin_target_names() {
  std::vector<std::string_view> names;
  // The order is that of embedded_targets, which builtin_target() indexes with a position here.
  for (const EmbeddedFile& file : embedded_targets)
    names.push_back(file.name.substr(0, file.name.rfind('.')));
  return names;
}

Result<Target> builtin_target(std::string_view name) {
  const std::vector<std::string_view> names = builtin_target_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return fail("target.unknown",
                fmt::format("no target is named \"{}\"{}", name, did_you_mean(name, names)),
                fmt::format("use one of {}, or the path of a target file, FILE.json",
                            fmt::join(names, ", ")));
  const EmbeddedFile& file = at(embedded_targets, found - names.begin());
  // Built-in targets must pass the same checks as files of users. Their texts are small, so each
  // use parses them again.
  return load_target(file.text, std::string(file.name));
}

}  // namespace moec
