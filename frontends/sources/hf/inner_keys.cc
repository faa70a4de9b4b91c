#include "frontends/sources/hf/inner_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "frontends/sources/config/config_reader.h"

namespace moec {
namespace {

using Names = std::set<std::string, std::less<>>;

// Adds the object part of a key OBJECT.MEMBER. A doubled dot is an escaped dot of a name and does
// not refer to an object.
void add_object_of(std::string_view key, Names& objects) {
  const size_t dot = key.find('.');
  if (dot != std::string_view::npos && !key.substr(dot).starts_with(".."))
    objects.emplace(key.substr(0, dot));
}

std::string with_doubled_dots(std::string_view name) {
  std::string doubled;
  for (const char c : name) doubled += c == '.' ? ".." : std::string(1, c);
  return doubled;
}

// Returns the names of the objects for which the descriptor has nested keys.
Names opened_objects(const Family& family) {
  Names objects;
  for (const auto& [name, rule] : family.concepts)
    if (!rule.outer)
      for (const std::string& key : rule.keys) add_object_of(key, objects);
  for (const auto& [key, accepted] : family.rules.must) add_object_of(key, objects);
  for (const auto& [key, why] : family.rules.harmless) add_object_of(key, objects);
  return objects;
}

bool looks_inner(std::string_view key, const Names& objects) {
  const size_t dot = key.find('.');
  return dot != std::string_view::npos && objects.contains(key.substr(0, dot));
}

// Adds the members of an object, or the entries of a list under their indices. Returns false for
// other values.
bool add_inner(const JsonMember& outer, JsonValue::Object& members) {
  if (const JsonValue::Object* object = outer.value.object()) {
    for (const JsonMember& one : *object) members.push_back({outer.key + "." + one.key, one.value});
    return true;
  }
  const JsonValue::Array* list = outer.value.array();
  if (list == nullptr) return false;
  for (size_t i = 0; i < list->size(); ++i)
    members.push_back({fmt::format("{}.{}", outer.key, i), (*list)[i]});
  return true;
}

}  // namespace

Result<JsonValue> with_inner_keys(const JsonValue& config, const Family& family,
                                  std::string_view text, const JsonSource& source) {
  const Names objects = opened_objects(family);
  JsonValue::Object members;
  for (const JsonMember& member : *config.object()) {
    if (looks_inner(member.key, objects))
      return fail("hf.config.unknown_key",
                  fmt::format("the key \"{}\" must be inside an object", printable(member.key, 80)),
                  kMendConfig, json_place(text, source, member.value.offset));
    if (!objects.contains(member.key) || member.value.is_null())
      members.push_back({with_doubled_dots(member.key), member.value});
    else if (!add_inner(member, members))
      return fail("hf.config.type",
                  fmt::format("\"{}\" must be an object or a list, found {}", member.key,
                              kind_name(member.value)),
                  kMendConfig, json_place(text, source, member.value.offset));
  }
  // JsonValue::find() searches sorted members.
  std::sort(members.begin(), members.end(),
            [](const JsonMember& a, const JsonMember& b) { return a.key < b.key; });
  return JsonValue{std::move(members), config.offset};
}

}  // namespace moec
