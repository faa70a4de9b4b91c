#include "models/families/family_concepts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace moec {
namespace {

bool is_number(const Concept& item) {
  return item.type == ConceptType::integer || item.type == ConceptType::number;
}

// "= a", "= a * b", "= a / b", "= sqrt a".
std::optional<ConceptExpression> parse_expression(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() == 2 && words[0] == "=") return ConceptExpression{words[1], 0, {}};
  if (words.size() == 3 && words[0] == "=" && words[1] == "sqrt")
    return ConceptExpression{words[2], 's', {}};
  if (words.size() == 4 && words[0] == "=" && (words[2] == "*" || words[2] == "/"))
    return ConceptExpression{words[1], words[2][0], words[3]};
  return std::nullopt;
}

bool fits(const Concept& item, const JsonValue& value) {
  if (value.is_null()) return item.presence == Presence::optional;
  switch (item.type) {
    case ConceptType::integer:
      return value.integer() != nullptr;
    case ConceptType::number:
      return value.number().has_value();
    case ConceptType::boolean:
      return value.boolean() != nullptr;
    case ConceptType::name:
      return value.string() != nullptr;
    case ConceptType::integers:
    case ConceptType::numbers:
    case ConceptType::names:
      return value.array() != nullptr;
    case ConceptType::object:
      return value.object() != nullptr;
  }
  return false;
}

void read_default(FieldReader& reader, const Concept& item, const JsonValue& value,
                  ConceptRule& rule) {
  // The default of a number cannot be a text, so a string must be an expression.
  if (is_number(item) && value.string() != nullptr) {
    rule.expression = parse_expression(*value.string());
    if (!rule.expression)
      reader.error("family.expression",
                   fmt::format("the default of \"{}\" is not an expression: \"{}\"", item.name,
                               printable(*value.string())),
                   value,
                   "write \"= a\", \"= a * b\", \"= a / b\" or \"= sqrt a\" with names of "
                   "concepts");
    return;
  }
  if (!fits(item, value))
    reader.error("family.type",
                 fmt::format("the default of \"{}\" cannot be {}", item.name, kind_name(value)),
                 value);
  rule.fallback = value;
}

// Reads the names that configs use instead of moec's.
void read_meanings(FieldReader& reader, const Concept& item, const JsonValue& fields,
                   ConceptRule& rule) {
  if (fields.find("meanings") == nullptr) return;
  if (item.type != ConceptType::name)
    reader.error("family.type",
                 fmt::format("\"{}\" is not a name, so it has no meanings", item.name),
                 *fields.find("meanings"));
  if (const JsonValue::Object* meanings = reader.members(fields, "meanings", true))
    for (const JsonMember& member : *meanings)
      rule.meanings[member.key] = reader.text_of(member.key, member.value);
}

// True if a concept may be a term of an expression: a number without an expression itself. With
// `nested`, a concept without keys may be an expression of such numbers.
bool can_be_term(const Family& family, const std::string& name, bool nested) {
  const auto found = family.concepts.find(name);
  // find_concept() cannot return null, because read_concepts() keeps only known names.
  if (found == family.concepts.end() || !is_number(*find_concept(name))) return false;
  const auto& expression = found->second.expression;
  if (!expression) return true;
  // Allowing only a single level of nesting excludes cycles of default expressions.
  return nested && found->second.keys.empty() && can_be_term(family, expression->left, false) &&
         (expression->op == 0 || can_be_term(family, expression->right, false));
}

void check_term(FieldReader& reader, const Family& family, const std::string& name,
                const JsonValue& at) {
  if (can_be_term(family, name, true)) return;
  reader.error("family.expression",
               fmt::format("\"{}\" cannot be part of an expression", printable(name)), at,
               "use numeric concepts of this descriptor that are not expressions "
               "themselves");
}

// Names of the concepts from which a concept may be computed.
std::vector<std::string> terms_of(const ConceptRule& rule) {
  std::vector<std::string> terms;
  for (const auto& expression : {rule.expression, rule.if_null}) {
    if (!expression) continue;
    terms.push_back(expression->left);
    if (expression->has_two()) terms.push_back(expression->right);
  }
  return terms;
}

// Extends a path of concepts, each computed from the next, until it returns to its first concept.
// Returns false if it cannot. `seen` has the concepts that were tried.
bool close_circle(const Family& family, std::vector<std::string>& path,
                  std::set<std::string>& seen) {
  const auto rule = family.concepts.find(path.back());
  if (rule == family.concepts.end()) return false;
  for (const std::string& term : terms_of(rule->second)) {
    const bool closes = term == path.front();
    if (!closes && !seen.insert(term).second) continue;
    path.push_back(term);
    if (closes || close_circle(family, path, seen)) return true;
    path.pop_back();
  }
  return false;
}

// A config with null for all keys of a circle would be computed without end.
void check_circles(FieldReader& reader, const Family& family, const JsonValue& concepts) {
  for (const auto& [name, rule] : family.concepts) {
    std::vector<std::string> path = {name};
    std::set<std::string> seen;
    // A circle is reported once, from its first concept on.
    if (!close_circle(family, path, seen) || *std::min_element(path.begin(), path.end()) != name)
      continue;
    reader.error("family.expression",
                 fmt::format("\"{}\" is computed from itself: {}", name, fmt::join(path, ", ")),
                 *concepts.find(name), "remove one of these \"null\" rules or defaults");
  }
}

// Checks a family without experts: all layers are dense.
void check_dense(FieldReader& reader, const Family& family, const JsonValue& root) {
  if (family.concepts.count("dense_ff") == 0)
    reader.error("family.missing_concept",
                 "the descriptor has neither the concept \"experts\" nor \"dense_ff\", but layers "
                 "need experts or a dense MLP",
                 root);
  for (const Concept& item : all_concepts())
    if (is_about_experts(item) && family.concepts.count(item.name) > 0)
      reader.error("family.no_experts",
                   fmt::format("the concept \"{}\" concerns experts, but the concept \"experts\" "
                               "is missing",
                               item.name),
                   root, "add the concept \"experts\", or remove concepts about experts");
}

void check_concepts(FieldReader& reader, const Family& family, const JsonValue& root) {
  const bool has_experts = family.has_experts();
  for (const Concept& item : all_concepts()) {
    const bool needed =
        item.presence == Presence::needed || (has_experts && item.presence == Presence::of_experts);
    if (needed && family.concepts.count(item.name) == 0)
      reader.error("family.missing_concept",
                   fmt::format("the concept \"{}\" is missing", item.name), root);
  }
  if (!has_experts) check_dense(reader, family, root);
  for (const auto& [name, rule] : family.concepts) {
    for (const auto& expression : {rule.expression, rule.if_null}) {
      if (!expression) continue;
      check_term(reader, family, expression->left, root);
      if (expression->has_two()) check_term(reader, family, expression->right, root);
    }
  }
}

}  // namespace

std::string to_string(const ConceptExpression& expression) {
  const auto& [left, op, right] = expression;
  if (op == 's') return "= sqrt " + left;
  return op == 0 ? "= " + left : fmt::format("= {} {} {}", left, op, right);
}

ConceptRule read_concept_rule(FieldReader& reader, const Concept& item, const JsonValue& fields) {
  // Errors are collected in `reader`. load_family() refuses the descriptor after all fields were
  // read.
  ConceptRule rule;
  static constexpr std::string_view kKnown[] = {"keys", "default", "only", "meanings", "null"};
  std::string where = fmt::format("concept \"{}\"", item.name);
  if (fields.object() == nullptr) {
    reader.wrong_type(item.name, "an object", fields);
    return rule;
  }
  reader.only_fields(fields, where, kKnown);
  if (const JsonValue* keys = fields.find("keys")) rule.keys = reader.texts_of("keys", *keys);
  if (const JsonValue* only = fields.find("only")) rule.only = reader.texts_of("only", *only);
  read_meanings(reader, item, fields, rule);
  if (const JsonValue* null = fields.find("null")) {
    // "refused" makes a null value an error, "default" gives it the default. An expression replaces
    // the null value.
    const std::string meaning = reader.text_of("null", *null);
    rule.refuses_null = meaning == "refused";
    rule.null_is_default = meaning == "default";
    if (!rule.refuses_null && !rule.null_is_default && is_number(item))
      rule.if_null = parse_expression(meaning);
    if (!rule.refuses_null && !rule.null_is_default && !rule.if_null)
      reader.error("family.unknown_value",
                   fmt::format("\"null\" in {} can only be \"refused\", \"default\" or, for a "
                               "number, an expression",
                               where),
                   *null);
  }
  if (const JsonValue* value = fields.find("default")) read_default(reader, item, *value, rule);
  if (rule.keys.empty() && !rule.fallback && !rule.expression)
    reader.error("family.missing_field", where + " has neither keys nor a default", fields);
  return rule;
}

void read_concepts(FieldReader& reader, const JsonValue& root, Family& family) {
  const JsonValue::Object* concepts = reader.members(root, "concepts", true);
  if (concepts == nullptr) return;
  std::vector<std::string_view> known;
  for (const Concept& item : all_concepts()) known.push_back(item.name);
  reader.only_fields(*root.find("concepts"), "concepts", known);
  // only_fields() has reported unknown names.
  for (const JsonMember& member : *concepts)
    if (const Concept* item = find_concept(member.key))
      family.concepts[member.key] = read_concept_rule(reader, *item, member.value);
  check_concepts(reader, family, root);
  if (!reader.failed()) check_circles(reader, family, *root.find("concepts"));
}

}  // namespace moec
