// Reads the JSON of a family descriptor. It is strict: unknown fields are errors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/families/family.h"
#include "models/families/family_concepts.h"
#include "models/families/family_fields.h"
#include "models/families/family_shared.h"

namespace moec {

namespace {

// Reads the field "inside" of a family descriptor: the larger models that contain the family.

using Names = std::vector<std::string>;

// Prefixes of a family's tensors in larger models, the usual one first.
struct Renaming {
  std::vector<std::pair<std::string, Names>> beginnings;

  // Empty if the name begins with none of the prefixes.
  Names of(const std::string& name) const {
    Names renamed;
    for (const auto& [from, all] : beginnings)
      if (name.starts_with(from))
        for (const std::string& to : all) renamed.push_back(to + name.substr(from.size()));
    return renamed;
  }
};

Renaming read_renaming(FieldReader& reader, const JsonValue& fields) {
  Renaming renaming;
  if (const JsonValue::Object* names = reader.members(fields, "names", false))
    for (const JsonMember& member : *names)
      renaming.beginnings.emplace_back(member.key, reader.texts_of(member.key, member.value));
  return renaming;
}

void add_once(Names& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// Returns the family as part of the larger model. The larger model's tensor names come first.
Family nested_in(const Family& plain, const Renaming& renaming) {
  Family nested = plain;
  nested.nested.clear();
  for (auto& [role, names] : nested.tensors) {
    Names all;
    for (const std::string& name : names)
      for (const std::string& renamed : renaming.of(name)) add_once(all, renamed);
    for (const std::string& name : names) add_once(all, name);
    names = std::move(all);
  }
  for (const auto& [pattern, why] : plain.ignored_tensors)
    for (std::string& renamed : renaming.of(pattern))
      nested.ignored_tensors.emplace(std::move(renamed), why);
  return nested;
}

// Reads the rule for tied heads: the config of the larger model states whether the head is tied.
void read_tied_head(FieldReader& reader, const JsonValue& fields, Family& nested) {
  const JsonValue* rule = fields.find("tied_head");
  if (rule == nullptr) return;
  for (const std::string& key : nested.concepts["tied_head"].keys)
    nested.rules.harmless[key] = "the config of the larger model states whether the head is tied";
  nested.concepts["tied_head"] = read_concept_rule(reader, *find_concept("tied_head"), *rule);
  nested.concepts["tied_head"].outer = true;
}

Family read_one(FieldReader& reader, const JsonValue& fields, const Family& plain) {
  static constexpr std::string_view kKnown[] = {
      "model_type", "key", "type", "tied_head", "names", "must", "harmless", "ignored_tensors"};
  reader.only_fields(fields, "inside", kKnown);
  Family nested = nested_in(plain, read_renaming(reader, fields));
  OuterModel outer;
  outer.model_type = reader.text_field(fields, "model_type");
  outer.key = reader.text_field(fields, "key");
  if (fields.find("type") != nullptr) outer.type = reader.text_field(fields, "type");
  read_tied_head(reader, fields, nested);
  add_common_keys(outer.rules);
  read_key_rules(reader, fields, outer.rules);
  read_ignored_tensors(reader, fields, nested.ignored_tensors);
  nested.outer = std::move(outer);
  return nested;
}

// Adds the larger model's tensor names to the family: an extracted text model may keep them.
void take_over(const Family& nested, Family& family) {
  for (auto& [role, names] : family.tensors)
    // at() cannot fail, because nested_in() keeps the roles of the family.
    for (const std::string& name : nested.tensors.at(role)) add_once(names, name);
  family.ignored_tensors.insert(nested.ignored_tensors.begin(), nested.ignored_tensors.end());
}

// Fills family.nested and appends the names in larger models to every role of the family. Must run
// after all other fields of the family were read. Findings: those of concepts, and family.type,
// family.unknown_field, family.missing_field.
void read_nesting(FieldReader& reader, const JsonValue& root, Family& family) {
  const JsonValue* inside = root.find("inside");
  if (inside == nullptr) return;
  if (inside->array() == nullptr) return reader.wrong_type("inside", "a list", *inside);
  std::vector<Family> all;
  for (const JsonValue& fields : *inside->array()) {
    if (fields.object() == nullptr) return reader.wrong_type("inside", "a list of objects", fields);
    all.push_back(read_one(reader, fields, family));
  }
  // Merges after all larger models were read, so that no larger model gets the names of another.
  for (const Family& nested : all) take_over(nested, family);
  family.nested = std::move(all);
}

constexpr std::string_view kFamilyFormat = "moec-family/1";

// ---- axes --------------------------------------------------------------------------------------

template <class E>
void read_axis(FieldReader& reader, const JsonValue& axes, std::string_view name, E& value) {
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

void read_axes(FieldReader& reader, const JsonValue& root, FamilyAxes& axes) {
  if (reader.members(root, "axes", true) == nullptr) return;
  const JsonValue& fields = *root.find("axes");
  std::vector<std::string_view> known;
  for_each_axis(axes, [&](std::string_view name, const auto&) { known.push_back(name); });
  reader.only_fields(fields, "axes", known);
  for_each_axis(
      axes, [&](std::string_view name, auto& value) { read_axis(reader, fields, name, value); });
}

// ---- tensors -----------------------------------------------------------------------------------

bool placeholders_fit(RoleScope scope, std::string_view text) {
  bool layer = text.find("{i}") != std::string_view::npos,
       expert = text.find("{e}") != std::string_view::npos;
  return layer == (scope != RoleScope::model) && expert == (scope == RoleScope::expert);
}

void read_templates(FieldReader& reader, const Role& role, const JsonValue& value, Family& family) {
  std::vector<std::string> templates = reader.texts_of(role.name, value);
  for (const std::string& text : templates)
    if (!placeholders_fit(role.scope, text))
      reader.error("family.template",
                   fmt::format("the name of \"{}\" must have {}: \"{}\"", role.name,
                               role.scope == RoleScope::model   ? "neither {i} nor {e}"
                               : role.scope == RoleScope::layer ? "{i} but not {e}"
                                                                : "{i} and {e}",
                               printable(text)),
                   value);
  family.tensors[std::string(role.name)] = std::move(templates);
}

// Adds the names under which MLX stores the experts of a layer, each projection in one tensor
// [experts, out, in]: PREFIX.switch_mlp.gate_proj.weight for PREFIX.experts.{e}.NAME.weight.
void add_mlx_experts(Family& family) {
  const auto gate = family.tensors.find("expert_gate");
  if (gate == family.tensors.end()) return;
  const Names templates = gate->second;
  for (const std::string& text : templates) {
    const size_t at = text.find(".experts.{e}.");
    if (at == std::string::npos) continue;
    for (const char* part : {"gate", "up", "down"})
      add_once(family.tensors[fmt::format("experts_{}", part)],
               fmt::format("{}.switch_mlp.{}_proj.weight", text.substr(0, at), part));
  }
}

void read_tensors(FieldReader& reader, const JsonValue& root, Family& family) {
  const JsonValue::Object* tensors = reader.members(root, "tensors", true);
  if (tensors == nullptr) return;
  std::vector<std::string_view> known;
  for (const Role& role : all_roles()) known.push_back(role.name);
  reader.only_fields(*root.find("tensors"), "tensors", known);
  for (const JsonMember& member : *tensors) {
    const Role* role = find_role(member.key);
    if (role == nullptr) continue;
    read_templates(reader, *role, member.value, family);
    if (!family.has_experts() && is_about_experts(*role))
      reader.error("family.no_experts",
                   fmt::format("the role \"{}\" concerns experts or their router, but the concept "
                               "\"experts\" is missing",
                               role->name),
                   member.value, "add the concept \"experts\", or remove the role");
  }
  add_mlx_experts(family);
}

void read_moe_offset(FieldReader& reader, const JsonValue& root, Family& family) {
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
  FieldReader reader(text, file);
  Family family;
  if (root.object() == nullptr) {
    reader.wrong_type("the file", "an object", root);
    return fail(reader.take_errors());
  }
  check_format(reader, root, kFamilyFormat);
  static constexpr std::string_view kKnown[] = {
      "format",   "model_type", "also",     "summary", "plan_only",       "axes",  "moe_offset",
      "concepts", "must",       "harmless", "tensors", "ignored_tensors", "inside"};
  reader.only_fields(root, "the file", kKnown);
  family.model_type = reader.text_field(root, "model_type");
  if (const JsonValue* also = root.find("also")) family.also = reader.texts_of("also", *also);
  family.summary = reader.text_field(root, "summary");
  if (root.find("plan_only") != nullptr) family.plan_only = reader.text_field(root, "plan_only");
  read_axes(reader, root, family.axes);
  read_moe_offset(reader, root, family);
  // The concepts come first: read_tensors() and read_nesting() depend on them.
  read_concepts(reader, root, family);
  read_tensors(reader, root, family);
  add_common_keys(family.rules);
  add_common_tensors(family.ignored_tensors);
  read_key_rules(reader, root, family.rules);
  read_ignored_tensors(reader, root, family.ignored_tensors);
  read_nesting(reader, root, family);
  if (reader.failed()) return fail(reader.take_errors());
  return family;
}

}  // namespace moec
