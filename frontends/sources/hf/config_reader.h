// Looks up concepts in a config.json as a family's descriptor defines them: by alias, by default or
// by expression. Collects the findings of the file.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "frontends/sources/hf/config_readings.h"
#include "ir/base/bounded_diagnostics.h"
#include "ir/base/diagnostics.h"
#include "ir/base/json.h"
#include "models/families/family.h"

namespace moec {

// The next step of most findings.
inline constexpr const char* kMendConfig =
    "mend the config, or describe the model with --family-file";

// A list with the same value for each layer counts as that value.
const JsonValue& once(const JsonValue& value);

class ConfigReader {
 public:
  // `root` is what the family describes: the whole config, or an object inside of it, and then
  // `outer` is the whole. All of them are parsed from `text`.
  ConfigReader(std::string_view text, const JsonSource& source, const JsonValue& root,
               const Family& family, const JsonValue* outer = nullptr)
      : text_(text), source_(source), root_(root), outer_(outer), family_(family) {}

  // The value of a concept, or `otherwise` where neither the config nor the descriptor gives one.
  // After a finding the result is meaningless.
  int64_t integer(std::string_view concept_name, int64_t otherwise = 0);
  double number(std::string_view concept_name, double otherwise = 0);
  bool boolean(std::string_view concept_name, bool otherwise = false);
  std::string name(std::string_view concept_name);
  std::vector<int64_t> integers(std::string_view concept_name) {
    return optional_integers(concept_name).value_or(std::vector<int64_t>());
  }
  // Nothing where the concept is unset.
  std::optional<int64_t> optional_integer(std::string_view concept_name);
  std::optional<double> optional_number(std::string_view concept_name);
  std::optional<std::vector<int64_t>> optional_integers(std::string_view concept_name);
  // Of a list of numbers, whether each is not 0; true and false stand for 1 and 0.
  std::optional<std::vector<bool>> optional_flags(std::string_view concept_name);
  std::optional<std::vector<std::string>> optional_names(std::string_view concept_name);
  // The members of an object; none where the concept is unset, and after a finding.
  const JsonValue::Object& members(std::string_view concept_name);

  // The first alias of a concept, or its name: for messages.
  std::string key_of(std::string_view concept_name) const;
  // The config's value of a concept, for the place of a message; null when it is a default.
  const JsonValue* at(std::string_view concept_name) const;
  // Whether a concept's list has an entry for each layer, whichever key or default it came from.
  // Adds a finding where it has not.
  bool has_one_a_layer(std::string_view concept_name, size_t entries);
  // The default that the descriptor gives a concept without keys, noted as its value. Returns null
  // when it gives none.
  const JsonValue* fallback(std::string_view concept_name);
  // Marks a top-level key as read. Returns null when it is absent or null.
  const JsonValue* key(std::string_view name);
  // The same of a key that may lie beside the family's object as well. Adds a finding where both
  // places have it and differ.
  const JsonValue* key_anywhere(std::string_view name);
  // As key(), without marking it.
  const JsonValue* peek(std::string_view name) const;
  // Whether the config has the key, be it null.
  bool has(std::string_view name) const { return root_.find(name) != nullptr; }

  // Adds findings for keys whose value differs from the required one, and for unknown keys. Of many
  // unknown keys only the first are named, here and in other_keys().
  void check_other_keys();

  void error(std::string code, std::string cause, const JsonValue* at = nullptr,
             std::string next = kMendConfig);
  void warning(std::string code, std::string cause, const JsonValue* at = nullptr);
  // A note among the warnings.
  void remark(std::string code, std::string cause, const JsonValue* at = nullptr);
  const std::string& file() const { return source_.file; }
  const Family& family() const { return family_; }
  Diagnostics take_errors() { return errors_.take(); }
  Diagnostics take_warnings() { return std::move(warnings_); }

  // The concepts looked up so far, and, after check_other_keys(), the keys that no concept reads.
  std::vector<ConceptReading> concepts() const;
  const std::vector<KeyReading>& other_keys() const { return other_keys_; }

 private:
  // Where a concept's value was found. With no member set, the concept is unset.
  struct Found {
    const JsonValue* value = nullptr;
    std::optional<double> computed;  // by the descriptor's expression
    std::string key;                 // empty: from the descriptor
  };
  // Nothing after a finding.
  std::optional<Found> lookup(std::string_view concept_name);
  std::optional<Found> look_for(const ConceptRule& rule, const Concept& item);
  const JsonValue* find(const ConceptRule& rule, std::string_view key) const;
  bool take_alias(const ConceptRule& rule, const std::string& alias, Found& found, bool& is_null);
  std::optional<Found> refuse_null(const ConceptRule& rule);
  std::optional<double> evaluate(const ConceptExpression& expression);
  bool check_length(const std::string& key, size_t entries, const JsonValue* at);
  void check_length(const std::string& key, const JsonValue& value);
  std::optional<int64_t> integer_of(const Concept& item, const Found& found);
  std::string absent_terms(const Concept& item) const;
  std::optional<int64_t> in_range(const Concept& item, const Found& found, double value);
  void wrong_type(std::string_view concept_name, const Found& found, std::string_view wanted);
  void note(std::string_view concept_name, const ConceptRule& rule, const Found& found);
  bool reads_concept(std::string_view key) const;
  // How the keys of one object of the config are looked at.
  struct Keys {
    const std::set<std::string, std::less<>>& read;
    const KeyRules& rules;
    const std::string& owner;  // the model_type, for messages
  };
  void check_keys(const JsonValue& object, const Keys& keys, const std::string& path);
  void ignore_key(const Keys& keys, const JsonMember& member, const std::string& path);
  void check_ignored_keys();
  void check_required_value(const Keys& keys, const JsonMember& member);
  void check_absent_keys(const JsonValue& object, const KeyRules& rules);
  void refuse_value(std::string found, const MustRule& rule, const JsonValue* at);
  bool reports_unknown_key(const Keys& keys, const JsonMember& member);
  // Empty for an unknown key that is only counted.
  std::string use_of(const Keys& keys, const JsonMember& member);
  Place place(const JsonValue* at) const;

  std::string_view text_;
  JsonSource source_;
  const JsonValue& root_;
  const JsonValue* outer_;
  const Family& family_;
  std::set<std::string, std::less<>> read_, outer_read_, ignored_;
  BoundedDiagnostics errors_;
  Diagnostics warnings_;
  std::map<std::string, ConceptReading, std::less<>> concepts_;
  std::vector<KeyReading> other_keys_;
};

}  // namespace moec
