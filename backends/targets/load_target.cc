#include "backends/targets/load_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/targets/read_rule.h"
#include "embedded/embedded_targets.h"
#include "ir/base/at.h"
#include "ir/base/json_fields.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

constexpr std::string_view kNextStep = "backends/targets/onnx.json shows every field";

Status read_dtype(JsonFields& fields, DType& dtype) {
  std::string name;
  MOEC_TRY(fields.text("dtype", name));
  const auto parsed = parse_dtype(name);
  if (!parsed || !is_float(*parsed)) return fields.bad("dtype", "must be f32, f16 or bf16");
  dtype = *parsed;
  return {};
}

Status read_min_coverage(JsonFields& fields, int64_t& percent) {
  MOEC_TRY(fields.whole("min_coverage", percent));
  if (percent > 100) return fields.bad("min_coverage", "is a percentage, at most 100");
  return {};
}

Status read_chips(JsonFields& fields, Target& target) {
  return fields.each("chips", [&](JsonFields& chip) -> Status {
    ChipFamily family;
    MOEC_TRY(chip.text("family", family.name));
    MOEC_TRY(chip.texts("chips", family.chips));
    MOEC_TRY(chip.text("about", family.about));
    MOEC_TRY(chip.finish());
    target.chips.push_back(std::move(family));
    return {};
  });
}

// A rule may name only families that the target has.
Status check_chips(const Target& target, const TargetRule& rule, const JsonFields& fields) {
  for (const std::string& chip : rule.chips)
    if (std::none_of(target.chips.begin(), target.chips.end(),
                     [&](const ChipFamily& family) { return family.name == chip; }))
      return fields.bad("chips", fmt::format("names the unknown chip family \"{}\" in rule {}",
                                             printable(chip, 60), printable(rule.id, 60)));
  return {};
}

Status read_rules(JsonFields& fields, Target& target) {
  std::set<std::string> ids;
  return fields.each("rules", [&](JsonFields& item) -> Status {
    MOEC_ASSIGN(TargetRule rule, read_rule(item));
    if (!ids.insert(rule.id).second)
      return item.bad("id", fmt::format("is \"{}\", which an earlier rule has already",
                                        printable(rule.id, 60)));
    MOEC_TRY(check_chips(target, rule, item));
    target.rules.push_back(std::move(rule));
    return {};
  });
}

// A form's text, or one with groups of any size.
bool is_form_entry(const std::string& text) {
  constexpr std::string_view kAnyGroup = ":g*";
  if (!text.ends_with(kAnyGroup)) return parse_weight_form(text).has_value();
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

Status read_coded_matmul_rank(JsonFields& fields, int64_t& rank) {
  if (!fields.has("coded_matmul_rank")) return {};
  MOEC_TRY(fields.whole("coded_matmul_rank", rank));
  if (rank != 2 && rank != 3) return fields.bad("coded_matmul_rank", "must be 2 or 3");
  return {};
}

// Optional: a target without these fields takes weights as they are only.
Status read_weights(JsonFields& fields, Target& target) {
  if (fields.has("four_bits")) {
    std::string text;
    MOEC_TRY(fields.text("four_bits", text));
    const auto form = parse_weight_form(text);
    if (!form) return fields.bad("four_bits", "is no form of weights");
    target.four_bits = *form;
  }
  if (!fields.has("weights")) return {};
  return fields.each("weights", [&](JsonFields& item) -> Status {
    return read_weight_form(item, target.weights.emplace_back());
  });
}

Result<Target> read_target(JsonFields fields) {
  Target target;
  MOEC_TRY(fields.text("name", target.name));
  MOEC_TRY(fields.text("unit", target.unit));
  MOEC_TRY(fields.choice("format", target.format));
  MOEC_TRY(read_dtype(fields, target.dtype));
  MOEC_TRY(fields.choice("projection", target.projection));
  MOEC_TRY(fields.choice("sum", target.sum));
  MOEC_TRY(fields.choice("attention", target.attention));
  MOEC_TRY(fields.boolean("has_state", target.has_state));
  MOEC_TRY(read_min_coverage(fields, target.min_coverage));
  MOEC_TRY(read_chips(fields, target));
  MOEC_TRY(read_rules(fields, target));
  MOEC_TRY(read_weights(fields, target));
  MOEC_TRY(read_coded_matmul_rank(fields, target.coded_matmul_rank));
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
  for (const EmbeddedFile& file : embedded_targets)
    names.push_back(file.name.substr(0, file.name.rfind('.')));
  return names;
}

Result<Target> builtin_target(std::string_view name) {
  const std::vector<std::string_view> names = builtin_target_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return fail(
        "target.unknown",
        fmt::format("there is no target named \"{}\"{}", name, did_you_mean(name, names)),
        fmt::format("known targets: {}; a target of your own is named by its file, FILE.json",
                    fmt::join(names, ", ")));
  const EmbeddedFile& file = at(embedded_targets, found - names.begin());
  return load_target(file.text, std::string(file.name));
}

}  // namespace moec
