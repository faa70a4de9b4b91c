// Reads the JSON of a family descriptor. It is strict: unknown fields are errors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "embedded/embedded_families.h"
#include "ir/base/invariant.h"
#include "models/families/family.h"
#include "models/families/family_concepts.h"
#include "models/families/family_fields.h"

namespace moec {
namespace {

constexpr std::string_view kFamilyFormat = "moec-family/1";
constexpr std::string_view kCommonFormat = "moec-family-common/1";

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
  for (const JsonMember& member : *tensors)
    if (const Role* role = find_role(member.key))
      read_templates(reader, *role, member.value, family);
}

// ---- what is shared ----------------------------------------------------------------------------

bool mtp_pattern_fits(std::string pattern) {
  if (const size_t at = pattern.find(kMtpLayer); at != std::string::npos)
    pattern.erase(at, kMtpLayer.size());
  return pattern.find_first_of("{}") == std::string::npos;
}

void read_shared_fields(FieldReader& reader, const JsonValue& root, Family& family) {
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
    for (const JsonMember& member : *ignored) {
      if (!mtp_pattern_fits(member.key))
        reader.error("family.template",
                     fmt::format("a pattern of ignored tensors can have {{mtp}} once, and no other "
                                 "placeholder: \"{}\"",
                                 printable(member.key)),
                     member.value);
      family.ignored_tensors[member.key] = reader.text_of(member.key, member.value);
    }
}

void check_format(FieldReader& reader, const JsonValue& root, std::string_view wanted) {
  std::string format = reader.text_field(root, "format");
  if (!format.empty() && format != wanted)
    reader.error(
        "family.format",
        fmt::format("the format is \"{}\", this version reads \"{}\"", printable(format), wanted),
        root);
}

const EmbeddedFile& common_file() {
  auto file = std::find_if(embedded_families.begin(), embedded_families.end(),
                           [](const EmbeddedFile& f) { return f.name == "common.json"; });
  MOEC_CHECK(file != embedded_families.end(), "families/common.json is not compiled in");
  return *file;
}

JsonValue parse_common() {
  Result<JsonValue> root = parse_json(common_file().text, {.file = "common.json"});
  MOEC_CHECK(root.has_value(), "{}", render(root.error()));
  return std::move(*root);
}

void add_common(Family& family) {
  const JsonValue root = parse_common();
  FieldReader reader(common_file().text, "common.json");
  check_format(reader, root, kCommonFormat);
  static constexpr std::string_view kKnown[] = {"format", "unsupported", "must", "harmless",
                                                "ignored_tensors"};
  reader.only_fields(root, "the file", kKnown);
  read_shared_fields(reader, root, family);
  MOEC_CHECK(!reader.failed(), "{}", render(reader.take_errors()));
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

std::optional<std::string> why_unsupported(std::string_view model_type) {
  const JsonValue root = parse_common();
  FieldReader reader(common_file().text, "common.json");
  const JsonValue::Object* reasons = reader.members(root, "unsupported", true);
  MOEC_CHECK(reasons != nullptr, "{}", render(reader.take_errors()));
  for (const JsonMember& member : *reasons)
    if (member.key == model_type) return reader.text_of(member.key, member.value);
  return std::nullopt;
}

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
      "format",   "model_type", "also",     "summary", "axes",           "moe_offset",
      "concepts", "must",       "harmless", "tensors", "ignored_tensors"};
  reader.only_fields(root, "the file", kKnown);
  family.model_type = reader.text_field(root, "model_type");
  if (const JsonValue* also = root.find("also")) family.also = reader.texts_of("also", *also);
  family.summary = reader.text_field(root, "summary");
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
