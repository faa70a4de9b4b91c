// Looks up concepts in a config.json as a family's descriptor specifies: by alias, default or
// expression. Collects the findings about the file.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "frontends/sources/config/config_readings.h"
#include "ir/base/bounded_diagnostics.h"
#include "ir/base/diagnostics.h"
#include "ir/base/json.h"
#include "models/families/family.h"

namespace moec {

// Default next step of findings.
inline constexpr const char* kMendConfig =
    "correct the config, or describe the model with --family-file";

// If `value` is a list of equal entries, returns the first entry; otherwise, returns `value`.
const JsonValue& once(const JsonValue& value);

class ConfigReader {
 public:
  // `root` is the object that the family describes. If it is nested inside the config, `outer` is
  // the whole config. Both are parsed from `text`.
  ConfigReader(std::string_view text, const JsonSource& source, const JsonValue& root,
               const Family& family, const JsonValue* outer = nullptr)
      : text_(text), source_(source), root_(root), outer_(outer), family_(family) {}

  // Returns the value of a concept, or `otherwise` if neither the config nor the descriptor has a
  // value. After a finding, the result is unspecified.
  int64_t integer(std::string_view concept_name, int64_t otherwise = 0);
  double number(std::string_view concept_name, double otherwise = 0);
  bool boolean(std::string_view concept_name, bool otherwise = false);
  std::string name(std::string_view concept_name);
  std::vector<int64_t> integers(std::string_view concept_name) {
    return optional_integers(concept_name).value_or(std::vector<int64_t>());
  }
  // Absent if the concept is unset.
  std::optional<int64_t> optional_integer(std::string_view concept_name);
  std::optional<double> optional_number(std::string_view concept_name);
  std::optional<std::vector<int64_t>> optional_integers(std::string_view concept_name);
  std::optional<std::vector<double>> optional_numbers(std::string_view concept_name);
  // Reads a list of numbers or booleans as flags; a number is true if it is not 0.
  std::optional<std::vector<bool>> optional_flags(std::string_view concept_name);
  std::optional<std::vector<std::string>> optional_names(std::string_view concept_name);
  // Returns the members of an object; none if the concept is unset, or after a finding.
  const JsonValue::Object& members(std::string_view concept_name);

  // Returns the first alias of a concept, or its name, for messages.
  std::string key_of(std::string_view concept_name) const;
  // Returns the value of a concept in the config, which locates a message; null if the value is a
  // default.
  const JsonValue* at(std::string_view concept_name) const;
  // Returns true if `entries`, the length of a concept's list, equals the number of layers.
  // Otherwise, adds a finding.
  bool has_one_a_layer(std::string_view concept_name, size_t entries);
  // Returns the descriptor's default of a concept, and records it as the concept's value; null if
  // there is no default.
  const JsonValue* fallback(std::string_view concept_name);
  // Returns a top-level key and marks it as read; null if it is absent or null.
  const JsonValue* key(std::string_view name);
  // Like key(), for a key that can also be in the outer config. Adds a finding if both places have
  // different values.
  const JsonValue* key_anywhere(std::string_view name);
  // Like key(), but does not mark the key as read.
  const JsonValue* peek(std::string_view name) const;
  // Returns true if the config has the key, even with the value null.
  bool has(std::string_view name) const { return root_.find(name) != nullptr; }

  // Adds findings for keys with a value other than the required one, and for unknown keys. If there
  // are many unknown keys, lists only the first ones, here and in other_keys().
  void check_other_keys();

  void error(std::string code, std::string cause, const JsonValue* at = nullptr,
             std::string next = kMendConfig);
  void warning(std::string code, std::string cause, const JsonValue* at = nullptr);
  // Adds a note to the warnings.
  void remark(std::string code, std::string cause, const JsonValue* at = nullptr);
  const std::string& file() const { return source_.file; }
  const Family& family() const { return family_; }
  Diagnostics take_errors() { return errors_.take(); }
  Diagnostics take_warnings() { return std::move(warnings_); }

  // Return the concepts that were looked up so far and, after check_other_keys(), the keys that are
  // not read by a concept.
  std::vector<ConceptReading> concepts() const;
  const std::vector<KeyReading>& other_keys() const { return other_keys_; }

 private:
  // Source of a concept's value. If no member is set, the concept is unset.
  struct Found {
    const JsonValue* value = nullptr;
    std::optional<double> computed;                 // result of `expression`
    const ConceptExpression* expression = nullptr;  // of the descriptor, for absent keys or null
    std::string key;                                // key of the config; empty: from the descriptor
  };
  // Absent after a finding.
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
  // Returns moec's name for a name in configs (ConceptRule::meanings).
  std::string meaning_of(std::string_view concept_name, const std::string& value);
  void wrong_type(std::string_view concept_name, const Found& found, std::string_view wanted);
  // `read` returns an entry as an Item, or nothing; `wanted` describes the list in the finding.
  template <class Item, class Read>
  std::optional<std::vector<Item>> optional_list(std::string_view concept_name,
                                                 std::string_view wanted, Read read);
  void note(std::string_view concept_name, const Found& found);
  bool reads_concept(std::string_view key) const;
  // Context for checking the keys of an object of the config.
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
  // Returns a description of a key's use; empty for an unknown key that is only counted.
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
