// Checks the keys of a config that are not read by a concept.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontends/sources/config/config_reader.h"
#include "ir/base/nearest.h"

namespace moec {

static bool accepts(const MustRule& rule, const JsonValue& value) {
  return std::find(rule.accepted.begin(), rule.accepted.end(), value) != rule.accepted.end();
}

void ConfigReader::check_required_value(const Keys& keys, const JsonMember& member) {
  const auto& [key, value] = member;
  const MustRule& rule = keys.rules.must.at(key);
  if (accepts(rule, value)) return;
  const bool lists = std::any_of(rule.accepted.begin(), rule.accepted.end(),
                                 [](const JsonValue& one) { return one.array() != nullptr; });
  // A list contains one value per layer, unless the required value is itself a list.
  // Only lists of the text model have an entry per layer.
  if (&keys.read == &read_ && !lists) check_length(key, value);
  if (lists || !accepts(rule, once(value)))
    refuse_value(fmt::format("\"{}\" is {}", key, to_string(value, 60)), rule, &value);
}

void ConfigReader::refuse_value(std::string found, const MustRule& rule, const JsonValue* at) {
  std::vector<std::string> texts;
  for (const JsonValue& item : rule.accepted) texts.push_back(to_string(item));
  error("hf.config.unsupported_value",
        fmt::format("{}; for the family {} it must be {}{}{}", found, family_.model_type,
                    fmt::join(texts, " or "), rule.why.empty() ? "" : ": ", rule.why),
        at, "use a supported variant of the family");
}

// Refuses absent keys that have an unsupported default.
void ConfigReader::check_absent_keys(const JsonValue& object, const KeyRules& rules) {
  for (const auto& [key, rule] : rules.must)
    if (const JsonValue* given = object.find(key);
        rule.absent && (given == nullptr || given->is_null()) && !accepts(rule, *rule.absent))
      refuse_value(
          fmt::format("\"{}\" is absent, which means {}", key, to_string(*rule.absent, 60)), rule,
          nullptr);
}

bool ConfigReader::reports_unknown_key(const Keys& keys, const JsonMember& member) {
  // did_you_mean() compares the key with all known keys, which is slow for many unknown keys.
  if (errors_.only_counts("hf.config.unknown_key")) return false;
  std::vector<std::string_view> known(keys.read.begin(), keys.read.end());
  for (const auto& [key, accepted] : keys.rules.must) known.push_back(key);
  for (const auto& [key, why] : keys.rules.harmless) known.push_back(key);
  error(
      "hf.config.unknown_key",
      fmt::format("the key \"{}\" ({}) is not known to the family {}{}", printable(member.key, 80),
                  to_string(member.value, 60), keys.owner, did_you_mean(member.key, known)),
      &member.value,
      fmt::format("pass --ignore-key {} if the key does not affect results",
                  printable(member.key, 80)));
  return true;
}

std::string ConfigReader::use_of(const Keys& keys, const JsonMember& member) {
  // A family may restrict a key that is read for every family.
  if (keys.rules.must.count(member.key) > 0) {
    check_required_value(keys, member);
    return "has the required value";
  }
  if (keys.read.count(member.key) > 0) return "read for every family";
  auto harmless = keys.rules.harmless.find(member.key);
  if (harmless != keys.rules.harmless.end()) return "harmless: " + harmless->second;
  return reports_unknown_key(keys, member) ? "unknown" : "";
}

void ConfigReader::ignore_key(const Keys& keys, const JsonMember& member, const std::string& path) {
  ignored_.insert(member.key);
  // Ignoring such a key would not change how it is read, so the option would mislead.
  if (keys.read.count(member.key) > 0 || keys.rules.must.count(member.key) > 0)
    return error("hf.config.ignored_key",
                 fmt::format("the family {} reads the key \"{}\", so it cannot be ignored",
                             keys.owner, printable(member.key, 80)),
                 &member.value, "omit --ignore-key for this key");
  other_keys_.push_back(
      {path + member.key, to_string(member.value, 40), "ignored by --ignore-key"});
}

// Reports keys to ignore that the config lacks, because a typo would otherwise go unnoticed.
void ConfigReader::check_ignored_keys() {
  for (const std::string& key : family_.rules.ignored)
    if (!ignored_.contains(key))
      error("hf.config.ignored_key",
            fmt::format("the config has no key \"{}\" to ignore", printable(key, 80)), nullptr,
            "correct the name after --ignore-key");
}

void ConfigReader::check_keys(const JsonValue& object, const Keys& keys, const std::string& path) {
  for (const JsonMember& member : *object.object()) {
    if (keys.rules.ignored.contains(member.key)) {
      ignore_key(keys, member, path);
      continue;
    }
    const bool read = keys.read.count(member.key) > 0;
    // In a config, null means the same as an absent key. lookup() handles the exceptions.
    if (member.value.is_null() || (read && reads_concept(member.key))) continue;
    if (std::string use = use_of(keys, member); !use.empty())
      other_keys_.push_back({path + member.key, to_string(member.value, 40), std::move(use)});
  }
}

void ConfigReader::check_other_keys() {
  check_absent_keys(root_, family_.rules);
  if (outer_ != nullptr) check_absent_keys(*outer_, family_.outer->rules);
  std::string path;
  if (outer_ != nullptr) {
    const OuterModel& outer = *family_.outer;
    // The text model's own key is an object that the reader opens.
    outer_read_.emplace(outer.key);
    check_keys(*outer_, {outer_read_, outer.rules, outer.model_type}, "");
    path = outer.key + ".";
  }
  check_keys(root_, {read_, family_.rules, family_.model_type}, path);
  check_ignored_keys();
}

}  // namespace moec
