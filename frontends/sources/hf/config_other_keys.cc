// The keys of a config that no concept reads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontends/sources/hf/config_reader.h"
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
  // A list says the same for each layer, unless a list is what the key must be.
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
        at, "This variant of the family is not supported.");
}

// A key that is absent may mean a value that is not accepted.
void ConfigReader::check_absent_keys(const JsonValue& object, const KeyRules& rules) {
  for (const auto& [key, rule] : rules.must)
    if (const JsonValue* given = object.find(key);
        rule.absent && (given == nullptr || given->is_null()) && !accepts(rule, *rule.absent))
      refuse_value(
          fmt::format("\"{}\" is absent, which means {}", key, to_string(*rule.absent, 60)), rule,
          nullptr);
}

bool ConfigReader::reports_unknown_key(const Keys& keys, const JsonMember& member) {
  if (errors_.only_counts("hf.config.unknown_key")) return false;
  std::vector<std::string_view> known(keys.read.begin(), keys.read.end());
  for (const auto& [key, accepted] : keys.rules.must) known.push_back(key);
  for (const auto& [key, why] : keys.rules.harmless) known.push_back(key);
  error(
      "hf.config.unknown_key",
      fmt::format("the key \"{}\" ({}) is not known to the family {}{}", printable(member.key, 80),
                  to_string(member.value, 60), keys.owner, did_you_mean(member.key, known)),
      &member.value,
      fmt::format("it may change the mathematics, so it is not passed over; if it does not, give "
                  "--ignore-key {}",
                  printable(member.key, 80)));
  return true;
}

std::string ConfigReader::use_of(const Keys& keys, const JsonMember& member) {
  if (keys.read.count(member.key) > 0) return "read for every family";
  if (keys.rules.must.count(member.key) > 0) {
    check_required_value(keys, member);
    return "has a value that it must have";
  }
  auto harmless = keys.rules.harmless.find(member.key);
  if (harmless != keys.rules.harmless.end()) return "harmless: " + harmless->second;
  return reports_unknown_key(keys, member) ? "unknown" : "";
}

void ConfigReader::ignore_key(const Keys& keys, const JsonMember& member, const std::string& path) {
  ignored_.insert(member.key);
  if (keys.read.count(member.key) > 0 || keys.rules.must.count(member.key) > 0)
    return error("hf.config.ignored_key",
                 fmt::format("the family {} reads the key \"{}\", which is to be ignored",
                             keys.owner, printable(member.key, 80)),
                 &member.value, "leave out --ignore-key for it");
  other_keys_.push_back({path + member.key, to_string(member.value, 40), "ignored as asked"});
}

// A name that matches no key is a typing error, which would otherwise pass unnoticed.
void ConfigReader::check_ignored_keys() {
  for (const std::string& key : family_.rules.ignored)
    if (!ignored_.contains(key))
      error("hf.config.ignored_key",
            fmt::format("the config has no key \"{}\", which is to be ignored", printable(key, 80)),
            nullptr, "correct the name after --ignore-key");
}

void ConfigReader::check_keys(const JsonValue& object, const Keys& keys, const std::string& path) {
  for (const JsonMember& member : *object.object()) {
    if (keys.rules.ignored.contains(member.key)) {
      ignore_key(keys, member, path);
      continue;
    }
    const bool read = keys.read.count(member.key) > 0;
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
    outer_read_.emplace(outer.key);
    check_keys(*outer_, {outer_read_, outer.rules, outer.model_type}, "");
    path = outer.key + ".";
  }
  check_keys(root_, {read_, family_.rules, family_.model_type}, path);
  check_ignored_keys();
}

}  // namespace moec
