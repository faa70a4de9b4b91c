#include "frontends/sources/gguf/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "embedded/embedded_gguf.h"
#include "frontends/sources/gguf/model_concepts.h"
#include "ir/base/invariant.h"
#include "ir/base/json_fields.h"
#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

constexpr std::string_view kFormat = "moec-gguf/1";
constexpr std::string_view kCommon = "common.json";

bool is_literal(std::string_view text) {
  return text == "true" || text == "false" || text == "null" ||
         parse_number<double>(text).has_value();
}

// An operator has a space on both sides, so a key may contain its character.
GgufExpression parse_expression(std::string_view text) {
  if (is_literal(text)) return {.literal = std::string(text)};
  for (const char op : {'/', '-'}) {
    const std::string sign = fmt::format(" {} ", op);
    if (const size_t at = text.find(sign); at != std::string_view::npos)
      return {std::string(text.substr(0, at)), std::string(text.substr(at + sign.size())), op, {}};
  }
  return {.left = std::string(text)};
}

std::vector<GgufExpression> parse_alternatives(std::string_view text) {
  constexpr std::string_view kOr = " | ";
  std::vector<GgufExpression> all;
  while (true) {
    const size_t end = text.find(kOr);
    all.push_back(parse_expression(text.substr(0, end)));
    if (end == std::string_view::npos) return all;
    text.remove_prefix(end + kOr.size());
  }
}

Status read_names(JsonFields& fields, GgufConcept& item) {
  MOEC_ASSIGN(const JsonFields names, fields.object("names"));
  for (const JsonMember& member : names.members()) {
    const auto number = parse_number<int64_t>(member.key);
    if (!number) return fields.bad("names", "has a key that is not a number");
    item.names[*number] = member.value;
  }
  return {};
}

Status read_value(JsonFields& fields, std::string_view name, std::optional<JsonValue>& out) {
  if (!fields.has(name)) return {};
  MOEC_ASSIGN(const JsonValue* value, fields.value(name));
  out = *value;
  return {};
}

Status read_text(JsonFields& fields, std::string_view name, std::string& out) {
  return fields.has(name) ? fields.text(name, out) : Status();
}

Result<GgufConcept> read_concept(const JsonReport& report, const JsonMember& member) {
  GgufConcept item;
  if (const std::string* text = member.value.string()) {
    item.from = parse_alternatives(*text);
    return item;
  }
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, member.value, "concepts." + member.key));
  std::string from;
  MOEC_TRY(read_text(fields, "key", from));
  if (!from.empty()) item.from = parse_alternatives(from);
  if (fields.has("names")) MOEC_TRY(read_names(fields, item));
  MOEC_TRY(read_value(fields, "otherwise", item.otherwise));
  MOEC_TRY(read_value(fields, "is", item.is));
  if (fields.has("zero")) MOEC_TRY(fields.number("zero", item.zero.emplace()));
  MOEC_TRY(read_text(fields, "has", item.has));
  MOEC_TRY(read_text(fields, "unread", item.unread));
  MOEC_TRY(read_text(fields, "as", item.as));
  MOEC_TRY(read_text(fields, "times", item.times));
  if (fields.has("listed")) {
    MOEC_TRY(fields.texts("listed", item.listed));
    if (item.listed.size() != 2) return fields.bad("listed", "must have two names");
  }
  MOEC_TRY(fields.finish());
  // Exactly one source, because two could contradict each other.
  const int sources =
      !item.from.empty() + item.is.has_value() + !item.has.empty() + !item.unread.empty();
  if (sources != 1) return fields.bad("key", "must be the only one of key, is, has and unread");
  return item;
}

Status read_only(JsonFields& fields, std::vector<double>& only) {
  if (!fields.has("only")) return {};
  MOEC_ASSIGN(const JsonValue* value, fields.value("only"));
  const JsonValue::Array none;
  for (const JsonValue& item : value->array() ? *value->array() : none) {
    const bool* flag = item.boolean();
    const auto number = item.number();
    if (!flag && !number) return fields.bad("only", "must contain numbers and booleans");
    only.push_back(flag ? *flag : *number);
  }
  return only.empty() ? fields.bad("only", "must be a list of values") : Status();
}

Result<GgufKeyRule> read_rule(const JsonReport& report, const JsonMember& member) {
  GgufKeyRule rule;
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, member.value, "keys." + member.key));
  MOEC_TRY(read_only(fields, rule.only));
  MOEC_TRY(read_text(fields, "same_as", rule.same_as));
  if (fields.has("unread")) MOEC_TRY(fields.number("unread", rule.unread.emplace()));
  MOEC_TRY(read_text(fields, "harmless", rule.harmless));
  MOEC_TRY(fields.finish());
  const int answers =
      !rule.only.empty() + !rule.same_as.empty() + rule.unread.has_value() + !rule.harmless.empty();
  if (answers != 1)
    return fields.bad("only", "must be the only one of only, same_as, unread and harmless");
  return rule;
}

Status read_rules(const JsonReport& report, JsonFields& fields, GgufArchitecture& architecture) {
  if (!fields.has("keys")) return {};
  MOEC_ASSIGN(const JsonFields rules, fields.object("keys"));
  for (const JsonMember& member : rules.members()) {
    MOEC_ASSIGN(architecture.keys[member.key], read_rule(report, member));
  }
  return {};
}

Status read_family(JsonFields& fields, GgufArchitecture& architecture) {
  GgufFamily family;
  MOEC_TRY(fields.text("family", family.family));
  if (fields.has("when")) {
    MOEC_ASSIGN(const JsonFields when, fields.object("when"));
    for (const JsonMember& member : when.members()) {
      // A value that is not an integer means that the key only has to exist.
      const int64_t* number = member.value.integer();
      family.when[member.key] = number ? std::optional(*number) : std::nullopt;
    }
  }
  if (fields.has("only")) {
    MOEC_ASSIGN(JsonFields only, fields.object("only"));
    for (const JsonMember& member : only.members())
      MOEC_TRY(only.integers(member.key, family.only[member.key]));
  }
  MOEC_TRY(fields.finish());
  architecture.families.push_back(std::move(family));
  return {};
}

// A tensor is its name's template, or an object with the name and the tensor's form.
Status read_tensor(const JsonReport& report, JsonFields& tensors, const JsonMember& member,
                   GgufArchitecture& architecture) {
  if (member.value.is_null()) {  // removes a common tensor
    architecture.tensors.erase(member.key);
    return {};
  }
  std::string& name = architecture.tensors[member.key];
  if (member.value.object() == nullptr) return tensors.text(member.key, name);
  MOEC_ASSIGN(JsonFields item, JsonFields::of(report, member.value, "tensors." + member.key));
  MOEC_TRY(item.text("name", name));
  MOEC_TRY(read_tensor_form(item, architecture.forms.roles[member.key]));
  return item.finish();
}

Status read_rotation(JsonFields& item, GgufArchitecture& architecture) {
  GgufRotation& rotation = architecture.rotations.emplace_back();
  MOEC_TRY(item.text("kind", rotation.kind));
  MOEC_TRY(read_text(item, "base", rotation.base));
  MOEC_TRY(read_text(item, "dims", rotation.dims));
  MOEC_TRY(read_text(item, "head", rotation.head));
  if (item.has("scaled")) MOEC_TRY(item.boolean("scaled", rotation.scaled));
  return item.finish();
}

// Reads concepts, key rules and tensors. These override existing entries of the same name.
Status read_entries(const JsonReport& report, JsonFields& fields, GgufArchitecture& architecture) {
  MOEC_ASSIGN(const JsonFields concepts, fields.object("concepts"));
  for (const JsonMember& member : concepts.members()) {
    MOEC_ASSIGN(architecture.concepts[member.key], read_concept(report, member));
  }
  MOEC_TRY(read_rules(report, fields, architecture));
  MOEC_TRY(read_layer_keys(fields, architecture.layers));
  if (fields.has("config")) {
    MOEC_ASSIGN(const JsonFields config, fields.object("config"));
    for (const JsonMember& member : config.members())
      architecture.config[member.key] = member.value;
  }
  if (!fields.has("tensors")) return {};
  MOEC_ASSIGN(JsonFields tensors, fields.object("tensors"));
  for (const JsonMember& member : tensors.members())
    MOEC_TRY(read_tensor(report, tensors, member, architecture));
  return {};
}

std::vector<std::string> split_at(std::string_view text, std::string_view sign) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(sign);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + sign.size());
  }
}

// Returns the constant if `text` is a number, otherwise the names between the signs.
GgufTerms parse_terms(std::string_view text, std::string_view sign) {
  if (const auto number = parse_number<int64_t>(text)) return {number, {}};
  return {{}, split_at(text, sign)};
}

// Calls take(key, text) for each member of the object `name`. All values must be strings.
Status each_text(JsonFields& fields, std::string_view name,
                 const std::function<void(const std::string& key, const std::string& text)>& take) {
  if (!fields.has(name)) return {};
  MOEC_ASSIGN(JsonFields item, fields.object(name));
  for (const JsonMember& member : item.members()) {
    std::string text;
    MOEC_TRY(item.text(member.key, text));
    take(member.key, text);
  }
  return {};
}

Status read_exclusions(JsonFields& fields, GgufWriting& writing) {
  MOEC_ASSIGN(JsonFields exclusions, fields.object("excludes"));
  for (const JsonMember& member : exclusions.members()) {
    GgufExclusion& exclusion = writing.exclusions.emplace_back();
    exclusion.concept_name = member.key;
    MOEC_TRY(exclusions.integers(member.key, exclusion.layers));
  }
  return {};
}

Status read_writing(JsonFields& fields, GgufWriting& writing) {
  if (!fields.has("writes")) return {};
  MOEC_ASSIGN(JsonFields item, fields.object("writes"));
  MOEC_TRY(each_text(item, "keys", [&](const std::string& key, const std::string& text) {
    writing.keys[key] = parse_terms(text, " + ");
  }));
  MOEC_TRY(each_text(item, "equal", [&](const std::string& one, const std::string& text) {
    writing.equal[one] = parse_terms(text, " * ");
  }));
  if (item.has("head")) MOEC_TRY(item.boolean("head", writing.needs_head));
  if (item.has("scalings")) {
    // The list of an architecture replaces that of common.json instead of extending it.
    writing.scalings.clear();
    MOEC_TRY(item.named(
        "scalings", [](const std::string& name) { return parse_enum<RopeScaling>(name); },
        [&](RopeScaling scaling) { writing.scalings.push_back(scaling); }));
  }
  if (item.has("excludes")) MOEC_TRY(read_exclusions(item, writing));
  return item.finish();
}

JsonReport report_on(std::string_view text, const std::string& file) {
  return {text, file,
          JsonCodes::by_prefix("gguf_architecture",
                               "see frontends/sources/gguf/README.md for all fields")};
}

Status read_format(JsonFields& fields) {
  std::string format;
  MOEC_TRY(fields.text("format", format));
  return format == kFormat ? Status() : fields.bad("format", fmt::format("must be {}", kFormat));
}

Status read_common(std::string_view text, GgufArchitecture& architecture) {
  const JsonReport report = report_on(text, std::string(kCommon));
  MOEC_ASSIGN(const JsonValue root, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  MOEC_TRY(read_format(fields));
  MOEC_TRY(read_entries(report, fields, architecture));
  MOEC_TRY(read_writing(fields, architecture.writing));
  // why_refused() reads this member. Here it only counts as read, so that finish() accepts it.
  MOEC_TRY(fields.object("refused"));
  return fields.finish();
}

std::string_view embedded_text(std::string_view name) {
  const auto found = std::find_if(embedded_gguf.begin(), embedded_gguf.end(),
                                  [&](const EmbeddedFile& file) { return file.name == name; });
  MOEC_CHECK(found != embedded_gguf.end(), "{} is not compiled in", name);
  return found->text;
}

std::vector<GgufArchitecture> load_embedded() {
  const std::string_view common = embedded_text(kCommon);
  std::vector<GgufArchitecture> all;
  for (const EmbeddedFile& file : embedded_gguf) {
    if (file.name == kCommon) continue;
    auto loaded = load_gguf_architecture(file.text, common, std::string(file.name));
    // Built-in files are part of the program, so an error in one is a bug and not a finding.
    MOEC_CHECK(loaded.has_value(), "built-in architecture: {}", render(loaded.error()));
    all.push_back(std::move(*loaded));
  }
  // Sorted, so that messages list the names in an order that does not depend on the build.
  std::sort(all.begin(), all.end(),
            [](const GgufArchitecture& a, const GgufArchitecture& b) { return a.name < b.name; });
  return all;
}

// Returns the reason why moec does not read an architecture of llama.cpp, if it is known.
std::optional<std::string> why_refused(std::string_view name) {
  const auto root = parse_json(embedded_text(kCommon), {.file = std::string(kCommon)});
  const JsonValue* refused = root ? root->find("refused") : nullptr;
  const JsonValue* why = refused ? refused->find(name) : nullptr;
  return why && why->string() ? std::optional(*why->string()) : std::nullopt;
}

}  // namespace

bool has_named_flags(const GgufConcept& item) {
  return !item.names.empty() &&
         std::any_of(item.from.begin(), item.from.end(), [](const GgufExpression& from) {
           return from.literal == "true" || from.literal == "false";
         });
}

Result<GgufArchitecture> load_gguf_architecture(std::string_view text, std::string_view common,
                                                const std::string& file) {
  GgufArchitecture architecture;
  // Read first, so that the entries of the architecture override the common ones.
  MOEC_TRY(read_common(common, architecture));
  const JsonReport report = report_on(text, file);
  MOEC_ASSIGN(const JsonValue root, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, root));
  MOEC_TRY(read_format(fields));
  MOEC_TRY(fields.text("arch", architecture.name));
  MOEC_TRY(
      fields.each("families", [&](JsonFields& item) { return read_family(item, architecture); }));
  if (fields.has("rows")) MOEC_TRY(fields.choice("rows", architecture.forms.rows));
  if (fields.has("value_heads"))
    MOEC_TRY(fields.choice("value_heads", architecture.forms.value_heads));
  if (fields.has("rotations"))
    MOEC_TRY(fields.each("rotations",
                         [&](JsonFields& item) { return read_rotation(item, architecture); }));
  MOEC_TRY(fields.boolean("rotates_heads", architecture.rotates_heads));
  if (fields.has("yarn_rounds")) MOEC_TRY(fields.boolean("yarn_rounds", architecture.yarn_rounds));
  MOEC_TRY(read_entries(report, fields, architecture));
  MOEC_TRY(read_writing(fields, architecture.writing));
  MOEC_TRY(fields.finish());
  return architecture;
}

std::span<const GgufArchitecture> gguf_architectures() {
  // Parsed once per process; the initialization of a local static is thread-safe.
  static const std::vector<GgufArchitecture> all = load_embedded();
  return all;
}

Result<const GgufArchitecture*> gguf_architecture_of(std::string_view family) {
  for (const GgufArchitecture& architecture : gguf_architectures())
    for (const GgufFamily& known : architecture.families)
      if (known.family == family) return &architecture;
  const auto why = why_refused(family);
  return fail("gguf.family",
              fmt::format("no architecture of llama.cpp is known for models of the family {}{}",
                          family, why ? ": " + *why : ""),
              "export the model for another target");
}

Result<const GgufArchitecture*> find_gguf_architecture(std::string_view name) {
  std::vector<std::string_view> names;
  for (const GgufArchitecture& architecture : gguf_architectures()) {
    if (architecture.name == name) return &architecture;
    names.push_back(architecture.name);
  }
  if (const auto why = why_refused(name))
    return fail("gguf.architecture",
                fmt::format("moec does not read models of the architecture \"{}\": {}", name, *why),
                "use the Hugging Face checkpoint of the model");
  return fail("gguf.architecture",
              fmt::format("unknown architecture \"{}\"{}; known: {}", printable(name, 60),
                          did_you_mean(name, names), fmt::join(names, ", ")),
              "use the Hugging Face checkpoint of the model, if moec supports its family");
}

std::string broken_product(const ModelConfig& model, const GgufArchitecture& architecture) {
  const auto number = [&](const std::string& name) {
    return concept_number(concept_value(model, name));
  };
  for (const auto& [name, terms] : architecture.writing.equal) {
    double product = static_cast<double>(terms.number.value_or(1));
    for (const std::string& factor : terms.concepts)
      product *= parse_number<double>(factor).value_or(number(factor));
    if (number(name) != product)
      return fmt::format("uses {} = {}, but this model has {}", name, product, number(name));
  }
  return {};
}

}  // namespace moec
