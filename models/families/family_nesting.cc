#include "models/families/family_nesting.h"

#include <algorithm>

#include "models/families/family_concepts.h"
#include "models/families/family_shared.h"

namespace moec {
namespace {

using Names = std::vector<std::string>;

// What a larger model calls the tensors of a family: other beginnings, the usual one first.
struct Renaming {
  std::vector<std::pair<std::string, Names>> beginnings;

  // None where the name begins with none of them.
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

// The family as it is inside of the larger model, whose names come first.
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

// Whether the head is tied is said by the whole model.
void read_tied_head(FieldReader& reader, const JsonValue& fields, Family& nested) {
  const JsonValue* rule = fields.find("tied_head");
  if (rule == nullptr) return;
  for (const std::string& key : nested.concepts["tied_head"].keys)
    nested.rules.harmless[key] = "the whole model says whether its head is tied";
  nested.concepts["tied_head"] = read_concept_rule(reader, *find_concept("tied_head"), *rule);
  nested.concepts["tied_head"].outer = true;
}

Family read_one(FieldReader& reader, const JsonValue& fields, const Family& plain) {
  static constexpr std::string_view kKnown[] = {"model_type", "key",      "tied_head",      "names",
                                                "must",       "harmless", "ignored_tensors"};
  reader.only_fields(fields, "inside", kKnown);
  Family nested = nested_in(plain, read_renaming(reader, fields));
  OuterModel outer;
  outer.model_type = reader.text_field(fields, "model_type");
  outer.key = reader.text_field(fields, "key");
  read_tied_head(reader, fields, nested);
  add_common_keys(outer.rules);
  read_key_rules(reader, fields, outer.rules);
  read_ignored_tensors(reader, fields, nested.ignored_tensors);
  nested.outer = std::move(outer);
  return nested;
}

// A text model that was taken out of the larger one may keep its names there.
void take_over(const Family& nested, Family& family) {
  for (auto& [role, names] : family.tensors)
    for (const std::string& name : nested.tensors.at(role)) add_once(names, name);
  family.ignored_tensors.insert(nested.ignored_tensors.begin(), nested.ignored_tensors.end());
}

}  // namespace

void read_nesting(FieldReader& reader, const JsonValue& root, Family& family) {
  const JsonValue* inside = root.find("inside");
  if (inside == nullptr) return;
  if (inside->array() == nullptr) return reader.wrong_type("inside", "a list", *inside);
  std::vector<Family> all;
  for (const JsonValue& fields : *inside->array()) {
    if (fields.object() == nullptr) return reader.wrong_type("inside", "a list of objects", fields);
    all.push_back(read_one(reader, fields, family));
  }
  for (const Family& nested : all) take_over(nested, family);
  family.nested = std::move(all);
}

}  // namespace moec
