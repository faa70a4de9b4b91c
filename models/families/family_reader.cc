// Reads the JSON of a family descriptor. It is strict: unknown fields are errors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/families/family.h"
#include "models/families/family_concepts.h"
#include "models/families/family_fields.h"
#include "models/families/family_nesting.h"
#include "models/families/family_shared.h"

namespace moec {
namespace {

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
                               role.scope == RoleScope::model   ? "no {i} and no {e}"
                               : role.scope == RoleScope::layer ? "{i} and no {e}"
                                                                : "{i} and {e}",
                               printable(text)),
                   value);
  family.tensors[std::string(role.name)] = std::move(templates);
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
                   fmt::format("the role \"{}\" is of experts or their router, and without the "
                               "concept \"experts\" there are none",
                               role->name),
                   member.value, "Add the concept \"experts\", or remove the role.");
  }
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
      "format", "model_type", "also",    "summary",         "axes",  "moe_offset", "concepts",
      "must",   "harmless",   "tensors", "ignored_tensors", "inside"};
  reader.only_fields(root, "the file", kKnown);
  family.model_type = reader.text_field(root, "model_type");
  if (const JsonValue* also = root.find("also")) family.also = reader.texts_of("also", *also);
  family.summary = reader.text_field(root, "summary");
  read_axes(reader, root, family.axes);
  read_moe_offset(reader, root, family);
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
