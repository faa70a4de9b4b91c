#include "backends/targets/load_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "embedded/embedded_targets.h"
#include "ir/invariant.h"
#include "ir/nearest.h"

namespace moec {
namespace {

using nlohmann::json;

// How strong the evidence of a rule is.
constexpr std::array<std::string_view, 4> kConfidences = {"documented", "measured",
                                                          "reverse-engineered", "folklore"};

tl::unexpected<Diagnostics> fail_field(std::string code, const std::string& where,
                                       std::string_view field, std::string_view what) {
  return fail(std::move(code), fmt::format("{}: field \"{}\" {}", where, field, what),
              "backends/targets/onnx.json shows every field");
}

// The fields of one JSON object, each of which must be asked for.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  Status text(std::string_view name, std::string& out) {
    MOEC_ASSIGN(const json* value, get(name));
    if (!value->is_string()) return bad(name, "must be a string");
    out = value->get<std::string>();
    return {};
  }

  Status boolean(std::string_view name, bool& out) {
    MOEC_ASSIGN(const json* value, get(name));
    if (!value->is_boolean()) return bad(name, "must be true or false");
    out = value->get<bool>();
    return {};
  }

  Status positive(std::string_view name, int64_t& out) {
    MOEC_ASSIGN(const json* value, get(name));
    if (!value->is_number_integer() || value->get<int64_t>() < 1)
      return bad(name, "must be a whole number above 0");
    out = value->get<int64_t>();
    return {};
  }

  Status texts(std::string_view name, std::vector<std::string>& out) {
    MOEC_ASSIGN(const json* value, get(name));
    if (!value->is_array() || value->empty()) return bad(name, "must be a list of strings");
    for (const json& item : *value) {
      if (!item.is_string()) return bad(name, "must be a list of strings");
      out.push_back(item.get<std::string>());
    }
    return {};
  }

  template <class Names>
  Result<size_t> one_of(std::string_view name, const Names& names) {
    std::string given;
    MOEC_TRY(text(name, given));
    const auto found = std::find(names.begin(), names.end(), given);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    return bad(name, fmt::format("is \"{}\", must be one of {}", given, fmt::join(names, ", ")));
  }

  template <class E>
  Status choice(std::string_view name, E& out) {
    MOEC_ASSIGN(const size_t index, one_of(name, enum_names(E{})));
    out = static_cast<E>(index);
    return {};
  }

  bool has(std::string_view name) const { return object_.contains(name); }

  Status finish() const {
    for (const auto& [name, value] : object_.items())
      if (!known_.count(name))
        return fail_field("target.unknown_field", where_, name, "is unknown");
    return {};
  }

  tl::unexpected<Diagnostics> bad(std::string_view name, std::string_view what) const {
    return fail_field("target.bad_value", where_, name, what);
  }

 private:
  Result<const json*> get(std::string_view name) {
    known_.emplace(name);
    const auto found = object_.find(name);
    if (found == object_.end())
      return fail_field("target.missing_field", where_, name, "is missing");
    return &*found;
  }

  const json& object_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

// A mnemonic ("add"), or a kind that stands for several ("binary").
bool is_op_name(const std::string& name) {
  if (parse_mnemonic(name)) return true;
  for (size_t kind = 0; kind < kOpKinds; ++kind)
    if (op_kind_name(static_cast<OpKind>(kind)) == name) return true;
  return false;
}

bool is_dtype_name(const std::string& name) { return parse_dtype(name).has_value(); }

Status check_names(const Fields& fields, std::string_view field,
                   const std::vector<std::string>& names, bool (*known)(const std::string&)) {
  for (const std::string& name : names)
    if (!known(name)) return fields.bad(field, fmt::format("names unknown \"{}\"", name));
  return {};
}

Status read_severity(Fields& fields, Severity& severity) {
  constexpr std::array<Severity, 3> kValues = {Severity::note, Severity::warning, Severity::error};
  std::array<std::string_view, 3> names;
  std::transform(kValues.begin(), kValues.end(), names.begin(), severity_name);
  MOEC_ASSIGN(const size_t index, fields.one_of("severity", names));
  severity = kValues[index];
  return {};
}

Status read_dtype(Fields& fields, DType& dtype) {
  std::string name;
  MOEC_TRY(fields.text("dtype", name));
  const auto parsed = parse_dtype(name);
  if (!parsed || !is_float(*parsed)) return fields.bad("dtype", "must be f32, f16 or bf16");
  dtype = *parsed;
  return {};
}

Status read_condition(Fields& fields, TargetRule& rule) {
  MOEC_TRY(fields.choice("condition", rule.condition));
  const bool by_op = rule.condition == RuleCondition::op_is;
  if (!by_op && rule.condition != RuleCondition::dtype_is)
    return fields.positive("limit", rule.limit);
  MOEC_TRY(fields.texts("names", rule.names));
  return check_names(fields, "names", rule.names, by_op ? is_op_name : is_dtype_name);
}

Result<TargetRule> read_rule(const json& object, const std::string& where) {
  if (!object.is_object()) return fail_field("target.bad_value", where, "rules", "holds no object");
  Fields fields(object, where);
  TargetRule rule;
  MOEC_TRY(fields.text("id", rule.id));
  if (rule.id.empty()) return fields.bad("id", "must not be empty");
  MOEC_TRY(read_condition(fields, rule));
  if (fields.has("ops")) {
    MOEC_TRY(fields.texts("ops", rule.ops));
    MOEC_TRY(check_names(fields, "ops", rule.ops, is_op_name));
  }
  MOEC_TRY(read_severity(fields, rule.severity));
  MOEC_TRY(fields.text("unit", rule.unit));
  MOEC_TRY(fields.text("reason", rule.reason));
  MOEC_ASSIGN(const size_t confidence, fields.one_of("confidence", kConfidences));
  rule.confidence = kConfidences[confidence];
  MOEC_TRY(fields.text("source", rule.source));
  MOEC_TRY(fields.finish());
  return rule;
}

Status read_rules(const json& rules, Target& target) {
  if (!rules.is_array())
    return fail_field("target.bad_value", "the target", "rules", "must be a list");
  std::set<std::string> ids;
  for (const json& object : rules) {
    MOEC_ASSIGN(TargetRule rule,
                read_rule(object, fmt::format("rule {}", target.rules.size() + 1)));
    if (!ids.insert(rule.id).second)
      return fail_field("target.bad_value", "the target", "rules",
                        fmt::format("has two rules with id \"{}\"", rule.id));
    target.rules.push_back(std::move(rule));
  }
  return {};
}

Result<Target> read_target(const json& object) {
  if (!object.is_object())
    return fail("target.bad_value", "the file does not hold one JSON object");
  json fields_only = object;
  fields_only.erase("rules");
  Fields fields(fields_only, "the target");
  Target target;
  MOEC_TRY(fields.text("name", target.name));
  MOEC_TRY(fields.text("unit", target.unit));
  MOEC_TRY(fields.choice("format", target.format));
  MOEC_TRY(read_dtype(fields, target.dtype));
  MOEC_TRY(fields.choice("projection", target.projection));
  MOEC_TRY(fields.choice("sum", target.sum));
  MOEC_TRY(fields.boolean("has_state", target.has_state));
  MOEC_TRY(fields.finish());
  if (!object.contains("rules"))
    return fail_field("target.missing_field", "the target", "rules", "is missing");
  MOEC_TRY(read_rules(object["rules"], target));
  return target;
}

// ---- JSON --------------------------------------------------------------------------------------

Place place_at(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto lines = static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t line_start = lines == 0 ? 0 : before.rfind('\n') + 1;
  return {.line = lines + 1, .column = static_cast<uint32_t>(before.size() - line_start + 1)};
}

// The JSON library keeps the last of equal keys; here they are an error.
class DuplicateKeys {
 public:
  bool operator()(int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key && !open_.back().insert(value.get<std::string>()).second)
      found = value.get<std::string>();
    return true;
  }
  std::string found;

 private:
  std::vector<std::set<std::string>> open_;
};

Result<json> parse_json(std::string_view text) {
  DuplicateKeys duplicates;
  json parsed;
  try {
    parsed = json::parse(text, std::ref(duplicates));
  } catch (const json::parse_error& error) {
    const size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    return fail("target.syntax", "this is not JSON", "check brackets, quotes and commas",
                place_at(text, byte));
  } catch (const json::exception&) {
    return fail("target.syntax", "a number is beyond every range", "write a smaller number");
  }
  if (!duplicates.found.empty())
    return fail("target.duplicate_key",
                fmt::format("the key \"{}\" stands twice in one object", duplicates.found),
                "remove one of them");
  return parsed;
}

}  // namespace

Result<Target> load_target(std::string_view text, const std::string& file) {
  Result<Target> target = parse_json(text).and_then(read_target);
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
    return fail("target.unknown",
                fmt::format("there is no target named \"{}\"{}", name, did_you_mean(name, names)),
                fmt::format("known targets: {}", fmt::join(names, ", ")));
  const EmbeddedFile& file = embedded_targets[static_cast<size_t>(found - names.begin())];
  return load_target(file.text, std::string(file.name));
}

}  // namespace moec
