#include "frontends/sources/config/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "frontends/sources/config/absent_keys.h"
#include "ir/base/invariant.h"
#include "ir/base/nearest.h"

namespace moec {

// Some configs have one value per layer where the family has a single value. A list of equal values
// stands for the value.
const JsonValue& once(const JsonValue& value) {
  const JsonValue::Array* all = value.array();
  if (all == nullptr || all->empty()) return value;
  const JsonValue& first = all->front();
  const bool same =
      std::all_of(all->begin(), all->end(), [&](const auto& x) { return x == first; });
  return same ? first : value;
}

Place ConfigReader::place(const JsonValue* at) const {
  if (at == nullptr) return {.file = source_.file};
  return json_place(text_, source_, at->offset);
}

void ConfigReader::error(std::string code, std::string cause, const JsonValue* at,
                         std::string next) {
  // Return early for errors that are only counted: place() counts lines, which is slow for many
  // errors. A concept in expressions can be reported repeatedly.
  if (errors_.only_counts(code)) return;
  errors_.add({Severity::error, std::move(code), std::move(cause), std::move(next), place(at)});
}

void ConfigReader::warning(std::string code, std::string cause, const JsonValue* at) {
  warnings_.push_back({Severity::warning, std::move(code), std::move(cause), {}, place(at)});
}

void ConfigReader::remark(std::string code, std::string cause, const JsonValue* at) {
  warnings_.push_back({Severity::note, std::move(code), std::move(cause), {}, place(at)});
}

const JsonValue* ConfigReader::key(std::string_view name) {
  read_.emplace(name);
  return peek(name);
}

const JsonValue* ConfigReader::key_anywhere(std::string_view name) {
  const JsonValue* inside = key(name);
  const JsonValue* outside = outer_ == nullptr ? nullptr : outer_->find(name);
  // Marks the key as read in the outer config, too; otherwise, a copy would be unknown there.
  if (outer_ != nullptr) outer_read_.emplace(name);
  if (outside == nullptr || outside->is_null()) return inside;
  if (inside != nullptr && !(*inside == *outside))
    error("hf.config.conflict",
          fmt::format("\"{0}\" and \"{1}.{0}\" differ, but have the same meaning", name,
                      family_.outer->key),
          outside, "remove the wrong one");
  return inside != nullptr ? inside : outside;
}

const JsonValue* ConfigReader::find(const ConceptRule& rule, std::string_view key) const {
  return (rule.outer && outer_ != nullptr ? *outer_ : root_).find(key);
}

const JsonValue* ConfigReader::peek(std::string_view name) const {
  const JsonValue* value = root_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string ConfigReader::key_of(std::string_view concept_name) const {
  auto found = family_.concepts.find(concept_name);
  if (found == family_.concepts.end() || found->second.keys.empty())
    return std::string(concept_name);
  return found->second.keys.front();
}

const JsonValue* ConfigReader::at(std::string_view concept_name) const {
  auto rule = family_.concepts.find(concept_name);
  if (rule == family_.concepts.end()) return nullptr;
  for (const std::string& alias : rule->second.keys)
    if (const JsonValue* value = find(rule->second, alias)) return value;
  return nullptr;
}

// ---- Lookup ------------------------------------------------------------------------------------

// Some config classes write "auto" for a size that is computed from others.
static bool is_auto(const ConceptRule& rule, const JsonValue& value) {
  return rule.expression && value.string() != nullptr && *value.string() == "auto";
}

bool ConfigReader::take_alias(const ConceptRule& rule, const std::string& alias, Found& found,
                              bool& is_null) {
  (rule.outer ? outer_read_ : read_).emplace(alias);
  const JsonValue* value = find(rule, alias);
  is_null |= value != nullptr && value->is_null();
  if (value == nullptr || value->is_null() || is_auto(rule, *value)) return true;
  // Every alias is read, even after a value is found: two aliases with different values are an
  // error.
  if (found.value != nullptr && !(once(*found.value) == once(*value))) {
    error("hf.config.conflict",
          fmt::format("\"{}\" is {} and \"{}\" is {}, but they have the same meaning", found.key,
                      to_string(*found.value, 60), alias, to_string(*value, 60)),
          value, "remove the wrong one");
    return false;
  }
  if (found.value == nullptr) found = {.value = value, .key = alias};
  return true;
}

// Returns true if null differs from an absent key. transformers also refuses such a null, which
// could mean "none" or "false". If the default is null, false or empty, null is equivalent to an
// absent key.
static bool refuses_null(const ConceptRule& rule) {
  if (rule.if_null || rule.null_is_default) return false;
  if (rule.refuses_null) return true;
  if (!rule.fallback || rule.fallback->is_null()) return false;
  if (const bool* usual = rule.fallback->boolean()) return *usual;
  return rule.fallback->array() == nullptr && rule.fallback->object() == nullptr;
}

std::optional<ConfigReader::Found> ConfigReader::refuse_null(const ConceptRule& rule) {
  for (const std::string& alias : rule.keys)
    if (const JsonValue* value = find(rule, alias))
      error("hf.config.type",
            fmt::format("\"{}\" is null; the default, {}, applies only if the key is absent", alias,
                        rule.fallback ? to_string(*rule.fallback, 40) : "unset"),
            value, "write the value, or remove the key");
  return std::nullopt;
}

// Returns the expression of a concept that has only absent or null keys.
static const std::optional<ConceptExpression>& computed_by(const ConceptRule& rule, bool is_null) {
  return is_null && rule.if_null ? rule.if_null : rule.expression;
}

std::optional<ConfigReader::Found> ConfigReader::look_for(const ConceptRule& rule,
                                                          const Concept& item) {
  Found found;
  bool is_null = false;
  for (const std::string& alias : rule.keys)
    if (!take_alias(rule, alias, found, is_null)) return std::nullopt;
  if (found.value != nullptr) return found;
  // For an optional concept, null means "none", even if the concept has a default.
  if (is_null && item.presence == Presence::optional && !rule.refuses_null) return found;
  if (is_null && refuses_null(rule)) return refuse_null(rule);
  if (const auto& expression = computed_by(rule, is_null)) {
    found.computed = evaluate(*expression);
    found.expression = &*expression;
    return found.computed ? std::optional(found) : std::nullopt;
  }
  if (rule.fallback) {
    if (!rule.fallback->is_null()) found.value = &*rule.fallback;
    return found;
  }
  error("hf.config.missing_key",
        fmt::format("there is no key for {}; the family {} reads: {}", item.name,
                    family_.model_type, fmt::join(rule.keys, ", ")),
        nullptr, "add the key with the value from the model's documentation");
  return std::nullopt;
}

std::optional<ConfigReader::Found> ConfigReader::lookup(std::string_view concept_name) {
  const Concept* item = find_concept(concept_name);
  MOEC_CHECK(item != nullptr, "no concept {}", concept_name);
  auto rule = family_.concepts.find(concept_name);
  if (rule == family_.concepts.end()) return Found{};
  std::optional<Found> found = look_for(rule->second, *item);
  if (found) note(concept_name, *found);
  return found;
}

const JsonValue* ConfigReader::fallback(std::string_view concept_name) {
  auto rule = family_.concepts.find(concept_name);
  if (rule == family_.concepts.end() || !rule->second.fallback) return nullptr;
  note(concept_name, {.value = &*rule->second.fallback});
  return &*rule->second.fallback;
}

std::optional<double> ConfigReader::evaluate(const ConceptExpression& expression) {
  // number() returns its default on an error, so only the count shows that a term is unknown.
  size_t errors_before = errors_.count();
  double left = number(expression.left);
  double right = expression.has_two() ? number(expression.right) : 1;
  if (errors_.count() != errors_before) return std::nullopt;
  if (expression.op == 's') return std::sqrt(left);
  if (expression.op != '/') return left * right;
  if (right != 0) return left / right;
  error("hf.config.range", fmt::format("{} is 0", key_of(expression.right)));
  return std::nullopt;
}

// ---- Readings ----------------------------------------------------------------------------------

void ConfigReader::note(std::string_view concept_name, const Found& found) {
  ConceptReading reading{std::string(concept_name), "unset", found.key};
  if (found.value != nullptr) reading.value = to_string(once(*found.value), 40);
  if (found.computed) {
    reading.value = fmt::format("{}", *found.computed);
    reading.expression = to_string(*found.expression);
  }
  // A concept can be looked up several times; the last reading is kept.
  concepts_.insert_or_assign(reading.name, std::move(reading));
}

std::vector<ConceptReading> ConfigReader::concepts() const {
  std::vector<ConceptReading> all;
  // The order of all_concepts() does not depend on the order of reading.
  for (const Concept& item : all_concepts())
    if (auto found = concepts_.find(item.name); found != concepts_.end())
      all.push_back(found->second);
  return all;
}

bool ConfigReader::reads_concept(std::string_view key) const {
  return std::any_of(family_.concepts.begin(), family_.concepts.end(), [&](const auto& item) {
    const std::vector<std::string>& keys = item.second.keys;
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  });
}

// ---- Typed access ------------------------------------------------------------------------------

void ConfigReader::wrong_type(std::string_view concept_name, const Found& found,
                              std::string_view wanted) {
  error("hf.config.type",
        fmt::format("\"{}\" must be {}, found {}",
                    found.key.empty() ? key_of(concept_name) : found.key, wanted,
                    to_string(*found.value, 60)),
        found.value);
}

// Returns clauses about absent keys of a concept's expression; their defaults may explain a wrong
// result.
std::string ConfigReader::absent_terms(const Concept& item) const {
  auto rule = family_.concepts.find(item.name);
  if (rule == family_.concepts.end() || !rule->second.expression) return {};
  const std::string_view terms[] = {rule->second.expression->left, rule->second.expression->right};
  return absent_keys_of_concepts({family_, concepts()}, terms);
}

std::optional<int64_t> ConfigReader::in_range(const Concept& item, const Found& found,
                                              double value) {
  std::string name = found.key.empty() ? std::string(item.name) : found.key;
  // The range is checked before the conversion, because converting a larger double is undefined
  // behaviour. A fraction can result from an expression.
  if (std::floor(value) == value && value >= static_cast<double>(item.minimum) &&
      value <= static_cast<double>(item.maximum))
    return static_cast<int64_t>(value);
  error("hf.config.range",
        fmt::format("\"{}\" is {}, but must be a whole number from {} to {}", name, value,
                    item.minimum, item.maximum),
        found.key.empty() ? nullptr : found.value,
        (found.computed ? absent_terms(item) : "") + kMendConfig);
  return std::nullopt;
}

bool ConfigReader::check_length(const std::string& key, size_t entries, const JsonValue* at) {
  const int64_t layers = integer("layers");
  if (std::cmp_equal(entries, layers)) return true;
  error("hf.config.layer_types",
        fmt::format("\"{}\" has {} entries for {} layers", key, entries, layers), at);
  return false;
}

// Adds a finding if `value` is a list without one entry per layer.
void ConfigReader::check_length(const std::string& key, const JsonValue& value) {
  if (const JsonValue::Array* all = value.array()) check_length(key, all->size(), &value);
}

bool ConfigReader::has_one_a_layer(std::string_view concept_name, size_t entries) {
  return check_length(key_of(concept_name), entries, at(concept_name));
}

std::optional<int64_t> ConfigReader::integer_of(const Concept& item, const Found& found) {
  if (found.computed) return in_range(item, found, *found.computed);
  // check_length() reads "layers", so checking that concept would recurse without end.
  if (item.name != "layers") check_length(found.key, *found.value);
  if (const int64_t* whole = once(*found.value).integer())
    return in_range(item, found, static_cast<double>(*whole));
  wrong_type(item.name, found, "an integer");
  return std::nullopt;
}

std::optional<int64_t> ConfigReader::optional_integer(std::string_view concept_name) {
  std::optional<Found> found = lookup(concept_name);
  if (!found || (found->value == nullptr && !found->computed)) return std::nullopt;
  return integer_of(*find_concept(concept_name), *found);
}

std::optional<double> ConfigReader::optional_number(std::string_view concept_name) {
  std::optional<Found> found = lookup(concept_name);
  if (!found) return std::nullopt;
  if (found->computed) return found->computed;
  if (found->value == nullptr) return std::nullopt;
  std::optional<double> value = once(*found->value).number();
  if (!value) wrong_type(concept_name, *found, "a number");
  return value;
}

int64_t ConfigReader::integer(std::string_view concept_name, int64_t otherwise) {
  return optional_integer(concept_name).value_or(otherwise);
}

double ConfigReader::number(std::string_view concept_name, double otherwise) {
  return optional_number(concept_name).value_or(otherwise);
}

bool ConfigReader::boolean(std::string_view concept_name, bool otherwise) {
  std::optional<Found> found = lookup(concept_name);
  if (!found || found->value == nullptr) return otherwise;
  if (const bool* value = found->value->boolean()) return *value;
  wrong_type(concept_name, *found, "true or false");
  return otherwise;
}

std::string ConfigReader::name(std::string_view concept_name) {
  std::optional<Found> found = lookup(concept_name);
  if (!found || found->value == nullptr) return {};
  if (const std::string* value = found->value->string()) return meaning_of(concept_name, *value);
  wrong_type(concept_name, *found, "a string");
  return {};
}

std::string ConfigReader::meaning_of(std::string_view concept_name, const std::string& value) {
  const auto& meanings = family_.concepts.find(concept_name)->second.meanings;
  if (meanings.empty()) return value;
  if (const auto found = meanings.find(value); found != meanings.end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& [name, meaning] : meanings) known.push_back(name);
  error("hf.config.unsupported_value",
        fmt::format("\"{}\" is \"{}\"; for the family {} it must be {}", key_of(concept_name),
                    printable(value, 60), family_.model_type, fmt::join(known, " or ")),
        at(concept_name));
  // Reading continues with a known name, so that one run reports all errors.
  return meanings.begin()->second;
}

template <class Item, class Read>
std::optional<std::vector<Item>> ConfigReader::optional_list(std::string_view concept_name,
                                                             std::string_view wanted, Read read) {
  std::optional<Found> found = lookup(concept_name);
  if (!found || found->value == nullptr) return std::nullopt;
  std::vector<Item> items;
  if (const JsonValue::Array* list = found->value->array()) {
    for (const JsonValue& entry : *list)
      if (std::optional<Item> item = read(entry)) items.push_back(*std::move(item));
    // Equal sizes mean that every entry has the type.
    if (items.size() == list->size()) return items;
  }
  wrong_type(concept_name, *found, wanted);
  return std::nullopt;
}

template <class Item>
static std::optional<Item> copy_of(const Item* value) {
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::vector<int64_t>> ConfigReader::optional_integers(std::string_view concept_name) {
  return optional_list<int64_t>(concept_name, "a list of integers",
                                [](const JsonValue& item) { return copy_of(item.integer()); });
}

std::optional<std::vector<double>> ConfigReader::optional_numbers(std::string_view concept_name) {
  return optional_list<double>(concept_name, "a list of numbers",
                               [](const JsonValue& item) { return item.number(); });
}

std::optional<std::vector<bool>> ConfigReader::optional_flags(std::string_view concept_name) {
  return optional_list<bool>(
      concept_name, "a list of 1 or true, and 0 or false", [](const JsonValue& item) {
        const int64_t* number = item.integer();
        return number == nullptr ? copy_of(item.boolean()) : std::optional(*number != 0);
      });
}

std::optional<std::vector<std::string>> ConfigReader::optional_names(
    std::string_view concept_name) {
  return optional_list<std::string>(concept_name, "a list of strings",
                                    [](const JsonValue& item) { return copy_of(item.string()); });
}

const JsonValue::Object& ConfigReader::members(std::string_view concept_name) {
  static const JsonValue::Object none;
  std::optional<Found> found = lookup(concept_name);
  if (!found || found->value == nullptr) return none;
  if (const JsonValue::Object* all = found->value->object()) return *all;
  wrong_type(concept_name, *found, "an object");
  return none;
}

}  // namespace moec
