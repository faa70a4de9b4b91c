#include "models/families/family_shared.h"

#include <fmt/format.h>

#include <algorithm>

#include "embedded/embedded_families.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr std::string_view kCommonFormat = "moec-family-common/1";

// True if each placeholder occurs at most once and there are no others.
bool placeholders_fit(std::string pattern) {
  for (const std::string_view placeholder : {kMtpLayer, kFurtherExpert, kDenseLayer})
    if (const size_t at = pattern.find(placeholder); at != std::string::npos)
      pattern.erase(at, placeholder.size());
  return pattern.find_first_of("{}") == std::string::npos;
}

const EmbeddedFile& common_file() {
  auto file = std::find_if(embedded_families.begin(), embedded_families.end(),
                           [](const EmbeddedFile& f) { return f.name == "common.json"; });
  MOEC_CHECK(file != embedded_families.end(), "families/common.json is not compiled in");
  return *file;
}

// A list of accepted values, or {"values": […], "absent": …, "why": "…"}.
MustRule read_must(FieldReader& reader, const JsonMember& member) {
  static constexpr std::string_view kKnown[] = {"values", "absent", "why"};
  MustRule rule;
  const bool detailed = member.value.object() != nullptr;
  const JsonValue* values = detailed ? reader.field(member.value, "values", true) : &member.value;
  if (detailed) reader.only_fields(member.value, member.key, kKnown);
  if (values != nullptr && values->array() == nullptr)
    reader.wrong_type(member.key, "a list of accepted values", *values);
  else if (values != nullptr)
    rule.accepted = *values->array();
  // A plain list has neither `absent` nor `why`.
  if (!detailed) return rule;
  if (const JsonValue* absent = member.value.find("absent")) rule.absent = *absent;
  if (member.value.find("why") != nullptr) rule.why = reader.text_field(member.value, "why");
  return rule;
}

// The content of families/common.json.
struct Common {
  KeyRules rules;
  std::map<std::string, std::string, std::less<>> ignored_tensors;
  std::map<std::string, std::string, std::less<>> unsupported;  // reasons by model_type
};

Common read_common() {
  const std::string_view text = common_file().text;
  const Result<JsonValue> root = parse_json(text, {.file = "common.json"});
  MOEC_CHECK(root.has_value(), "{}", render(root.error()));
  FieldReader reader(text, "common.json");
  check_format(reader, *root, kCommonFormat);
  static constexpr std::string_view kKnown[] = {"format", "unsupported", "must", "harmless",
                                                "ignored_tensors"};
  reader.only_fields(*root, "the file", kKnown);
  Common common;
  read_key_rules(reader, *root, common.rules);
  read_ignored_tensors(reader, *root, common.ignored_tensors);
  if (const auto* reasons = reader.members(*root, "unsupported", true))
    for (const JsonMember& member : *reasons)
      common.unsupported[member.key] = reader.text_of(member.key, member.value);
  // The file is part of the program, so an error in it is a bug.
  MOEC_CHECK(!reader.failed(), "{}", render(reader.take_errors()));
  return common;
}

// All families share the content, so it is parsed once, on first use.
const Common& common() {
  static const Common content = read_common();
  return content;
}

}  // namespace

void read_key_rules(FieldReader& reader, const JsonValue& fields, KeyRules& rules) {
  if (const auto* must = reader.members(fields, "must", false))
    for (const JsonMember& member : *must) rules.must[member.key] = read_must(reader, member);
  if (const auto* harmless = reader.members(fields, "harmless", false))
    for (const JsonMember& member : *harmless)
      rules.harmless[member.key] = reader.text_of(member.key, member.value);
}

void read_ignored_tensors(FieldReader& reader, const JsonValue& fields,
                          std::map<std::string, std::string, std::less<>>& ignored) {
  const auto* patterns = reader.members(fields, "ignored_tensors", false);
  if (patterns == nullptr) return;
  for (const JsonMember& member : *patterns) {
    if (!placeholders_fit(member.key))
      reader.error(
          "family.template",
          fmt::format(
              "a pattern of ignored tensors may contain {{mtp}} and {{further}} once each and "
              "no other placeholders, found \"{}\"",
              printable(member.key)),
          member.value);
    ignored[member.key] = reader.text_of(member.key, member.value);
  }
}

void check_format(FieldReader& reader, const JsonValue& root, std::string_view wanted) {
  std::string format = reader.text_field(root, "format");
  // text_field() has reported a missing format.
  if (!format.empty() && format != wanted)
    reader.error("family.format",
                 fmt::format("the format is \"{}\", expected \"{}\"", printable(format), wanted),
                 root);
}

void add_common_keys(KeyRules& rules) {
  for (const auto& [key, rule] : common().rules.must) rules.must.insert_or_assign(key, rule);
  for (const auto& [key, why] : common().rules.harmless) rules.harmless.insert_or_assign(key, why);
}

void add_common_tensors(std::map<std::string, std::string, std::less<>>& ignored) {
  for (const auto& [pattern, why] : common().ignored_tensors)
    ignored.insert_or_assign(pattern, why);
}

std::optional<std::string> why_unsupported(std::string_view model_type) {
  const auto found = common().unsupported.find(model_type);
  if (found == common().unsupported.end()) return std::nullopt;
  return found->second;
}

}  // namespace moec
