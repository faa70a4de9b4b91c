#include "backends/targets/load_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/targets/json_fields.h"
#include "backends/targets/read_rule.h"
#include "embedded/embedded_targets.h"
#include "ir/base/at.h"
#include "ir/base/nearest.h"

namespace moec {
namespace {

using nlohmann::json;

constexpr std::string_view kTheTarget = "the target";

tl::unexpected<Diagnostics> bad_target(std::string_view field, std::string_view what) {
  return fail_field("target.bad_value", std::string(kTheTarget), field, what);
}

Status read_dtype(Fields& fields, DType& dtype) {
  std::string name;
  MOEC_TRY(fields.text("dtype", name));
  const auto parsed = parse_dtype(name);
  if (!parsed || !is_float(*parsed)) return fields.bad("dtype", "must be f32, f16 or bf16");
  dtype = *parsed;
  return {};
}

// The list under a key that must be there.
Result<const json*> list_at(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end())
    return fail_field("target.missing_field", std::string(kTheTarget), name, "is missing");
  if (!found->is_array()) return bad_target(name, "must be a list");
  return &*found;
}

Status read_chips(const json& object, Target& target) {
  MOEC_ASSIGN(const json* list, list_at(object, "chips"));
  for (const json& item : *list) {
    const std::string where = fmt::format("chip family {}", target.chips.size() + 1);
    if (!item.is_object()) return fail_field("target.bad_value", where, "chips", "holds no object");
    Fields fields(item, where);
    ChipFamily family;
    MOEC_TRY(fields.text("family", family.name));
    MOEC_TRY(fields.texts("chips", family.chips));
    MOEC_TRY(fields.text("about", family.about));
    MOEC_TRY(fields.finish());
    target.chips.push_back(std::move(family));
  }
  return {};
}

// A rule may name only families that the target has.
Status check_chips(const Target& target, const TargetRule& rule) {
  for (const std::string& chip : rule.chips)
    if (std::none_of(target.chips.begin(), target.chips.end(),
                     [&](const ChipFamily& family) { return family.name == chip; }))
      return bad_target("rules",
                        fmt::format("has rule {} for unknown chip family \"{}\"", rule.id, chip));
  return {};
}

Status read_rules(const json& object, Target& target) {
  MOEC_ASSIGN(const json* rules, list_at(object, "rules"));
  std::set<std::string> ids;
  for (const json& item : *rules) {
    MOEC_ASSIGN(TargetRule rule, read_rule(item, fmt::format("rule {}", target.rules.size() + 1)));
    if (!ids.insert(rule.id).second)
      return bad_target("rules", fmt::format("has two rules with id \"{}\"", rule.id));
    MOEC_TRY(check_chips(target, rule));
    target.rules.push_back(std::move(rule));
  }
  return {};
}

Status read_min_coverage(Fields& fields, Target& target) {
  MOEC_TRY(fields.whole("min_coverage", target.min_coverage));
  if (target.min_coverage > 100) return fields.bad("min_coverage", "is a percentage, at most 100");
  return {};
}

Result<Target> read_target(const json& object) {
  if (!object.is_object())
    return fail("target.bad_value", "the file does not hold one JSON object");
  json scalars = object;
  for (const char* list : {"chips", "rules"}) scalars.erase(list);
  Fields fields(scalars, std::string(kTheTarget));
  Target target;
  MOEC_TRY(fields.text("name", target.name));
  MOEC_TRY(fields.text("unit", target.unit));
  MOEC_TRY(fields.choice("format", target.format));
  MOEC_TRY(read_dtype(fields, target.dtype));
  MOEC_TRY(fields.choice("projection", target.projection));
  MOEC_TRY(fields.choice("sum", target.sum));
  MOEC_TRY(fields.choice("attention", target.attention));
  MOEC_TRY(fields.boolean("has_state", target.has_state));
  MOEC_TRY(read_min_coverage(fields, target));
  MOEC_TRY(fields.finish());
  MOEC_TRY(read_chips(object, target));
  MOEC_TRY(read_rules(object, target));
  target.limits = derive_limits(target.rules);
  return target;
}

}  // namespace

Result<Target> load_target(std::string_view text, const std::string& file) {
  Result<Target> target = parse_target_json(text).and_then(read_target);
  if (!target)
    for (Diagnostic& finding : target.error()) finding.place.file = file;
  return target;
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
