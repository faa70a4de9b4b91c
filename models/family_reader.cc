// Reads the JSON of a family descriptor, strictly: a field that is not known is an error.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "embedded/embedded_families.h"
#include "ir/invariant.h"
#include "ir/nearest.h"
#include "models/family.h"

namespace moec {
namespace {

constexpr std::string_view kFamilyFormat = "moec-family/1";
constexpr std::string_view kCommonFormat = "moec-family-common/1";

// Collects the findings of one descriptor.
class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), source_{.file = file} {}

  void error(std::string code, std::string cause, const JsonValue& at, std::string next = {}) {
    errors_.push_back({Severity::error, std::move(code), std::move(cause), std::move(next),
                       json_place(text_, source_, at.offset)});
  }

  // A field of the right kind, or null with a finding. A missing field is a finding when needed.
  const JsonValue* field(const JsonValue& object, std::string_view name, bool needed) {
    const JsonValue* value = object.find(name);
    if (value == nullptr && needed)
      error("family.missing_field", fmt::format("the field \"{}\" is missing", name), object);
    return value;
  }
  const JsonValue::Object* members(const JsonValue& object, std::string_view name, bool needed) {
    const JsonValue* value = field(object, name, needed);
    if (value == nullptr) return nullptr;
    if (value->object() == nullptr) wrong_type(name, "an object", *value);
    return value->object();
  }
  std::string text_field(const JsonValue& object, std::string_view name, bool needed) {
    const JsonValue* value = field(object, name, needed);
    return value == nullptr ? std::string() : text_of(name, *value);
  }
  std::string text_of(std::string_view name, const JsonValue& value) {
    if (value.string() != nullptr && !value.string()->empty()) return *value.string();
    wrong_type(name, "a string that is not empty", value);
    return {};
  }
  // One string or a list of strings.
  std::vector<std::string> texts_of(std::string_view name, const JsonValue& value) {
    std::vector<std::string> texts;
    if (value.array() == nullptr) {
      texts.push_back(text_of(name, value));
    } else {
      for (const JsonValue& item : *value.array()) texts.push_back(text_of(name, item));
    }
    if (texts.empty()) wrong_type(name, "a list that is not empty", value);
    return texts;
  }
  void wrong_type(std::string_view name, std::string_view wanted, const JsonValue& value) {
    error("family.type", fmt::format("\"{}\" must be {}, found {}", name, wanted, kind_name(value)),
          value);
  }
  void only_fields(const JsonValue& object, std::string_view where,
                   std::span<const std::string_view> known) {
    if (object.object() == nullptr) return;
    for (const JsonMember& member : *object.object())
      if (std::find(known.begin(), known.end(), member.key) == known.end())
        error("family.unknown_field",
              fmt::format("unknown field \"{}\" in {}{}; known: {}", printable(member.key), where,
                          did_you_mean(member.key, known), fmt::join(known, ", ")),
              member.value);
  }

  bool failed() const { return !errors_.empty(); }
  Diagnostics take_errors() { return std::move(errors_); }

 private:
  std::string_view text_;
  JsonSource source_;
  Diagnostics errors_;
};

// ---- axes --------------------------------------------------------------------------------------

template <class E>
void read_axis(Reader& reader, const JsonValue& axes, std::string_view name, E& value) {
  const JsonValue* field = axes.find(name);
  if (field == nullptr) return;
  std::string text = reader.text_of(name, *field);
  if (auto parsed = parse_enum<E>(text)) {
    value = *parsed;
    return;
  }
  auto names = enum_names(E{});
  reader.error("family.unknown_value",
               fmt::format("the axis \"{}\" has no value \"{}\"; known: {}", name, printable(text),
                           fmt::join(names, ", ")),
               *field);
}

void read_axes(Reader& reader, const JsonValue& root, FamilyAxes& axes) {
  if (reader.members(root, "axes", true) == nullptr) return;
  const JsonValue& fields = *root.find("axes");
  static constexpr std::string_view kKnown[] = {
      "attention", "block",  "norm",        "qk_norm",       "rope",
      "window",    "renorm", "group_score", "routed_weight", "shared_expert"};
  reader.only_fields(fields, "axes", kKnown);
  read_axis(reader, fields, "attention", axes.attention);
  read_axis(reader, fields, "block", axes.block);
  read_axis(reader, fields, "norm", axes.norm);
  read_axis(reader, fields, "qk_norm", axes.qk_norm);
  read_axis(reader, fields, "rope", axes.rope);
  read_axis(reader, fields, "window", axes.window);
  read_axis(reader, fields, "renorm", axes.renorm);
  read_axis(reader, fields, "group_score", axes.group_score);
  read_axis(reader, fields, "routed_weight", axes.routed_weight);
  read_axis(reader, fields, "shared_expert", axes.shared_expert);
}

// ---- concepts ----------------------------------------------------------------------------------

bool is_number(const Concept& concept_) {
  return concept_.type == ConceptType::integer || concept_.type == ConceptType::number;
}

// "= a", "= a * b", "= a / b".
std::optional<ConceptExpression> parse_expression(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() == 2 && words[0] == "=") return ConceptExpression{words[1], 0, {}};
  if (words.size() == 4 && words[0] == "=" && (words[2] == "*" || words[2] == "/"))
    return ConceptExpression{words[1], words[2][0], words[3]};
  return std::nullopt;
}

bool fits(const Concept& concept_, const JsonValue& value) {
  if (value.is_null()) return concept_.presence == Presence::optional;
  switch (concept_.type) {
    case ConceptType::integer:
      return value.integer() != nullptr;
    case ConceptType::number:
      return value.number().has_value();
    case ConceptType::boolean:
      return value.boolean() != nullptr;
    case ConceptType::name:
      return value.string() != nullptr;
    case ConceptType::integers:
    case ConceptType::names:
      return value.array() != nullptr;
  }
  return false;
}

void read_default(Reader& reader, const Concept& concept_, const JsonValue& value,
                  ConceptRule& rule) {
  if (is_number(concept_) && value.string() != nullptr) {
    rule.expression = parse_expression(*value.string());
    if (!rule.expression)
      reader.error("family.expression",
                   fmt::format("the default of \"{}\" is no expression: \"{}\"", concept_.name,
                               printable(*value.string())),
                   value, "Write \"= a\", \"= a * b\" or \"= a / b\" with names of concepts.");
    return;
  }
  if (!fits(concept_, value))
    reader.error("family.type",
                 fmt::format("the default of \"{}\" cannot be {}", concept_.name, kind_name(value)),
                 value);
  rule.fallback = value;
}

ConceptRule read_rule(Reader& reader, const Concept& concept_, const JsonValue& fields) {
  ConceptRule rule;
  static constexpr std::string_view kKnown[] = {"keys", "default", "only"};
  std::string where = fmt::format("concept \"{}\"", concept_.name);
  if (fields.object() == nullptr) {
    reader.wrong_type(concept_.name, "an object", fields);
    return rule;
  }
  reader.only_fields(fields, where, kKnown);
  if (const JsonValue* keys = fields.find("keys")) rule.keys = reader.texts_of("keys", *keys);
  if (const JsonValue* only = fields.find("only")) rule.only = reader.texts_of("only", *only);
  if (const JsonValue* value = fields.find("default")) read_default(reader, concept_, *value, rule);
  if (rule.keys.empty() && !rule.fallback && !rule.expression)
    reader.error("family.missing_field", where + " has neither keys nor a default", fields);
  return rule;
}

void check_term(Reader& reader, const Family& family, const std::string& name,
                const JsonValue& at) {
  auto found = family.concepts.find(name);
  const Concept* concept_ = find_concept(name);
  if (found != family.concepts.end() && is_number(*concept_) && !found->second.expression) return;
  reader.error("family.expression",
               fmt::format("\"{}\" cannot stand in an expression", printable(name)), at,
               "An expression names numeric concepts of this descriptor that are no expressions "
               "themselves.");
}

void check_concepts(Reader& reader, const Family& family, const JsonValue& root) {
  for (const Concept& concept_ : all_concepts())
    if (concept_.presence == Presence::needed && family.concepts.count(concept_.name) == 0)
      reader.error("family.missing_concept",
                   fmt::format("the concept \"{}\" is missing", concept_.name), root);
  for (const auto& [name, rule] : family.concepts) {
    if (!rule.expression) continue;
    check_term(reader, family, rule.expression->left, root);
    if (rule.expression->op != 0) check_term(reader, family, rule.expression->right, root);
  }
}

void read_concepts(Reader& reader, const JsonValue& root, Family& family) {
  const JsonValue::Object* concepts = reader.members(root, "concepts", true);
  if (concepts == nullptr) return;
  std::vector<std::string_view> known;
  for (const Concept& concept_ : all_concepts()) known.push_back(concept_.name);
  reader.only_fields(*root.find("concepts"), "concepts", known);
  for (const JsonMember& member : *concepts)
    if (const Concept* concept_ = find_concept(member.key))
      family.concepts[member.key] = read_rule(reader, *concept_, member.value);
  check_concepts(reader, family, root);
}

// ---- tensors -----------------------------------------------------------------------------------

bool placeholders_fit(RoleScope scope, std::string_view text) {
  bool layer = text.find("{i}") != text.npos, expert = text.find("{e}") != text.npos;
  return layer == (scope != RoleScope::model) && expert == (scope == RoleScope::expert);
}

void read_templates(Reader& reader, const Role& role, const JsonValue& value, Family& family) {
  std::vector<std::string> templates = reader.texts_of(role.name, value);
  for (const std::string& text : templates)
    if (!placeholders_fit(role.scope, text))
      reader.error("family.template",
                   fmt::format("the name of \"{}\" must have {}: \"{}\"", role.name,
                               role.scope == RoleScope::model   ? "no {i} and no {e}"
                               : role.scope == RoleScope::layer ? "{i} and no {e}"
                                                                : "{i} and {e}",
                               printable(text)),
                   value);
  family.tensors[std::string(role.name)] = std::move(templates);
}

void read_tensors(Reader& reader, const JsonValue& root, Family& family) {
  const JsonValue::Object* tensors = reader.members(root, "tensors", true);
  if (tensors == nullptr) return;
  std::vector<std::string_view> known;
  for (const Role& role : all_roles()) known.push_back(role.name);
  reader.only_fields(*root.find("tensors"), "tensors", known);
  for (const JsonMember& member : *tensors)
    if (const Role* role = find_role(member.key))
      read_templates(reader, *role, member.value, family);
}

// ---- what is shared ----------------------------------------------------------------------------

void read_shared_fields(Reader& reader, const JsonValue& root, Family& family) {
  if (const auto* must = reader.members(root, "must", false))
    for (const JsonMember& member : *must) {
      if (member.value.array() == nullptr)
        reader.wrong_type(member.key, "a list of accepted values", member.value);
      else
        family.must[member.key] = *member.value.array();
    }
  if (const auto* harmless = reader.members(root, "harmless", false))
    for (const JsonMember& member : *harmless)
      family.harmless[member.key] = reader.text_of(member.key, member.value);
  if (const auto* ignored = reader.members(root, "ignored_tensors", false))
    for (const JsonMember& member : *ignored)
      family.ignored_tensors[member.key] = reader.text_of(member.key, member.value);
}

void check_format(Reader& reader, const JsonValue& root, std::string_view wanted) {
  std::string format = reader.text_field(root, "format", true);
  if (!format.empty() && format != wanted)
    reader.error(
        "family.format",
        fmt::format("the format is \"{}\", this version reads \"{}\"", printable(format), wanted),
        root);
}

void add_common(Family& family) {
  auto file = std::find_if(embedded_families.begin(), embedded_families.end(),
                           [](const EmbeddedFile& f) { return f.name == "common.json"; });
  MOEC_CHECK(file != embedded_families.end(), "families/common.json is not compiled in");
  Result<JsonValue> root = parse_json(file->text, {.file = "common.json"});
  MOEC_CHECK(root.has_value(), "{}", render(root.error()));
  Reader reader(file->text, "common.json");
  check_format(reader, *root, kCommonFormat);
  static constexpr std::string_view kKnown[] = {"format", "must", "harmless", "ignored_tensors"};
  reader.only_fields(*root, "the file", kKnown);
  read_shared_fields(reader, *root, family);
  MOEC_CHECK(!reader.failed(), "{}", render(reader.take_errors()));
}

void read_moe_offset(Reader& reader, const JsonValue& root, Family& family) {
  const JsonValue* offset = root.find("moe_offset");
  if (offset == nullptr) return;
  if (offset->integer() == nullptr || *offset->integer() < 0 || *offset->integer() > 4096)
    reader.wrong_type("moe_offset", "an integer from 0 to 4096", *offset);
  else
    family.moe_offset = *offset->integer();
}

}  // namespace

Result<Family> load_family(std::string_view text, const std::string& file) {
  MOEC_ASSIGN(JsonValue root, parse_json(text, {.file = file}));
  Reader reader(text, file);
  Family family;
  if (root.object() == nullptr) {
    reader.wrong_type("the file", "an object", root);
    return fail(reader.take_errors());
  }
  check_format(reader, root, kFamilyFormat);
  static constexpr std::string_view kKnown[] = {
      "format",   "model_type", "summary",  "axes",    "moe_offset",
      "concepts", "must",       "harmless", "tensors", "ignored_tensors"};
  reader.only_fields(root, "the file", kKnown);
  family.model_type = reader.text_field(root, "model_type", true);
  family.summary = reader.text_field(root, "summary", true);
  read_axes(reader, root, family.axes);
  read_moe_offset(reader, root, family);
  read_concepts(reader, root, family);
  read_tensors(reader, root, family);
  add_common(family);
  read_shared_fields(reader, root, family);
  if (reader.failed()) return fail(reader.take_errors());
  return family;
}

}  // namespace moec
