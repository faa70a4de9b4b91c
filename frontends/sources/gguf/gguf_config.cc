#include "frontends/sources/gguf/gguf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "backends/formats/gguf/block_name.h"
#include "frontends/sources/gguf/gguf_ends.h"
#include "frontends/sources/gguf/gguf_model.h"
#include "frontends/sources/gguf/gguf_rope.h"
#include "frontends/sources/gguf/layer_facts.h"
#include "ir/base/bounded_diagnostics.h"
#include "ir/base/diagnostics.h"
#include "ir/base/parse_number.h"
#include "models/families/family_vocabulary.h"

namespace moec {
namespace {

using Names = std::set<std::string, std::less<>>;

// The keys, without "ARCH.", that determine the family and its config.
Names keys_of_model(const GgufArchitecture& architecture) {
  // vocabulary_size() reads this key for every architecture.
  Names names = {"vocab_size"};
  for (const GgufFamily& family : architecture.families) {
    for (const auto& [key, value] : family.when) names.insert(key);
    for (const auto& [key, values] : family.only) names.insert(key);
  }
  for (const auto& [name, item] : architecture.concepts)
    for (const GgufExpression& from : item.from) names.insert({from.left, from.right});
  for (const auto& [key, terms] : architecture.writing.keys) names.insert(key);
  for (const GgufLayerKind& kind : architecture.layers.kinds)
    for (const auto& [key, value] : kind.keys) names.insert(key);
  for (const auto& [key, step] : architecture.layers.steps) names.insert(step.number);
  return names;
}

// Checks the keys "ARCH.*" of a GGUF file that do not determine the config. llama.cpp uses some of
// them, so ignoring such a key could change the model.
class KeyChecker {
 public:
  explicit KeyChecker(const GgufModel& model)
      : model_(model), values_(model.file.values), known_(keys_of_model(model.architecture)) {}

  Result<Diagnostics> run() {
    const std::string prefix = model_.key("");
    // Except for general.architecture, keys with other prefixes do not affect the arithmetic.
    for (const auto& [key, value] : values_.keys())
      if (key.starts_with(prefix)) check(key, key.substr(prefix.size()));
    if (errors_.count() > 0) return fail(errors_.take());
    return std::move(warnings_);
  }

 private:
  void check(const std::string& key, const std::string& name) {
    if (known_.contains(name) || reads_rope_key(model_, name)) return;
    const auto found = model_.architecture.keys.find(name);
    if (found == model_.architecture.keys.end()) return refuse_unknown(key);
    const GgufKeyRule& rule = found->second;
    if (!rule.only.empty()) check_values(key, rule.only);
    if (!rule.same_as.empty()) check_same(key, model_.key(rule.same_as));
    if (rule.unread) warn_of_unread(key, *rule.unread);
  }

  void refuse(std::string code, std::string cause, std::string next) {
    errors_.add({Severity::error,
                 std::move(code),
                 std::move(cause),
                 std::move(next),
                 {.file = values_.file()}});
  }

  void refuse_unknown(const std::string& key) {
    refuse("gguf.unknown_key",
           fmt::format("unknown key \"{}\" of this architecture, on which the model may depend",
                       printable(key, 80)),
           "use the Hugging Face checkpoint of the model, or remove the key from the file if "
           "llama.cpp does not read it");
  }

  // Returns a value as text for a message.
  std::string said(const std::string& key) const {
    const GgufValue& value = values_.keys().find(key)->second;
    const auto number = values_.as_number(value);
    return number ? fmt::format("{}", *number) : to_string(value);
  }

  // `accepted` has numbers only; booleans are compared as 0 and 1.
  void check_values(const std::string& key, const std::vector<double>& accepted) {
    const auto found = values_.as_number(values_.keys().find(key)->second);
    if (found && std::count(accepted.begin(), accepted.end(), *found) > 0) return;
    refuse(
        "gguf.value",
        fmt::format("{} is {}; only {} is supported", key, said(key), fmt::join(accepted, " or ")),
        "use the Hugging Face checkpoint of the model");
  }

  // An absent `other` key differs from every value, because its default is not known here.
  void check_same(const std::string& key, const std::string& other) {
    const auto found = values_.as_number(values_.keys().find(key)->second);
    const auto wanted =
        values_.has(other) ? values_.as_number(values_.keys().find(other)->second) : std::nullopt;
    if (found && found == wanted) return;
    refuse("gguf.value",
           fmt::format("{} is {}, but {} is {}; only equal values are supported", key, said(key),
                       other, values_.has(other) ? said(other) : "absent"),
           "use the Hugging Face checkpoint of the model");
  }

  void warn_of_unread(const std::string& key, double computed) {
    if (values_.as_number(values_.keys().find(key)->second) == computed) return;
    warnings_.push_back(
        {Severity::warning,
         "gguf.unread_key",
         fmt::format("{} is {}, which llama.cpp ignores: the model uses {}, as in llama.cpp", key,
                     said(key), computed),
         "compare the model with its Hugging Face checkpoint",
         {.file = values_.file()}});
  }

  const GgufModel& model_;
  const GgufValues& values_;
  Names known_;
  BoundedDiagnostics errors_;
  Diagnostics warnings_;
};

// Checks each key of the architecture against the descriptor (README.md, "Architectures"). Returns
// warnings gguf.unread_key for keys that llama.cpp ignores in favour of another value. Errors, all
// in one result: gguf.unknown_key; gguf.value (moec does not support the value of a key).
Result<Diagnostics> check_keys(const GgufModel& model) { return KeyChecker(model).run(); }

// ---- Values ------------------------------------------------------------------------------------

// Returns a key's value as JSON. An f32 is written with as few digits as round-trip.
Result<std::optional<std::string>> as_json(const GgufModel& model, std::string_view name,
                                           ConceptType type) {
  const GgufValues& values = model.file.values;
  const std::string key = model.key(name);
  if (type == ConceptType::number) {
    MOEC_ASSIGN(const auto value, model.number(name));
    return value ? std::optional(fmt::format("{}", *value)) : std::nullopt;
  }
  if (type == ConceptType::boolean) {
    MOEC_ASSIGN(const auto value, values.find<bool>(key));
    return value ? std::optional(fmt::format("{}", *value)) : std::nullopt;
  }
  MOEC_ASSIGN(const auto value, values.find<uint32_t>(key));
  return value ? std::optional(fmt::format("{}", *value)) : std::nullopt;
}

// Returns the quotient or the difference of two keys; absent if a key is absent.
Result<std::optional<std::string>> combined(const GgufModel& model, const GgufExpression& from) {
  MOEC_ASSIGN(const auto left, model.file.values.find<uint32_t>(model.key(from.left)));
  MOEC_ASSIGN(const auto right, model.file.values.find<uint32_t>(model.key(from.right)));
  if (!left || !right) return std::nullopt;
  // Signed, because an unsigned difference would wrap around for an inconsistent file.
  if (from.op == '-') return fmt::format("{}", int64_t{*left} - int64_t{*right});
  if (*right != 0 && *left % *right == 0) return fmt::format("{}", *left / *right);
  return fmt::format("{}", static_cast<double>(*left) / static_cast<double>(*right));
}

Result<std::optional<std::string>> evaluate(const GgufModel& model, const GgufExpression& from,
                                            ConceptType type) {
  if (!from.literal.empty()) return from.literal;
  return from.op == 0 ? as_json(model, from.left, type) : combined(model, from);
}

// Keys with names are integers or flags, regardless of the concept's type.
ConceptType type_of_keys(const GgufConcept& item, const Concept& meant) {
  if (item.names.empty()) return meant.type;
  return has_named_flags(item) ? ConceptType::boolean : ConceptType::integer;
}

std::string first_key(const GgufModel& model, const GgufConcept& item) {
  return model.key(item.from.front().left);
}

// A value as JSON. `absent` names the missing key or tensor if the value is llama.cpp's default.
struct TakenValue {
  std::string text, absent;
};

Result<TakenValue> from_keys(const GgufModel& model, const GgufConcept& item,
                             const Concept& meant) {
  // Keys precede the literal, which is llama.cpp's default when all keys are absent.
  for (const GgufExpression& from : item.from) {
    MOEC_ASSIGN(auto value, evaluate(model, from, type_of_keys(item, meant)));
    if (value && from.literal.empty()) return TakenValue{*std::move(value), ""};
    if (value)
      return TakenValue{*std::move(value), fmt::format("key \"{}\"", first_key(model, item))};
  }
  return fail("gguf.missing_key",
              fmt::format("the key \"{}\", which determines the {} of the model, is missing",
                          first_key(model, item), meant.name),
              "convert the model again with a converter that writes the key",
              {.file = model.file.values.file()});
}

Result<std::string> named(const GgufModel& model, const GgufConcept& item, const Concept& meant,
                          const std::string& number) {
  for (const auto& [known, value] : item.names)
    if (number == (has_named_flags(item) ? fmt::format("{}", known != 0) : std::to_string(known)))
      return to_string(value);
  if (item.otherwise) return to_string(*item.otherwise);
  return fail("gguf.value",
              fmt::format("{} is {}, for which the family {} has no {}", first_key(model, item),
                          number, model.family.model_type, meant.name),
              "use the Hugging Face checkpoint of the model", {.file = model.file.values.file()});
}

bool has_in_a_layer(const GgufModel& model, std::string_view tensor) {
  return std::any_of(
      model.file.tensors.begin(), model.file.tensors.end(), [&](const GgufTensor& found) {
        return parse_block_name(found.name) && found.name.ends_with("." + std::string(tensor));
      });
}

// Flags multiplied by another key's number; null without the list.
Result<TakenValue> listed_products(const GgufModel& model, const GgufConcept& item) {
  const std::string key = first_key(model, item);
  if (!model.file.values.has(key)) return TakenValue{"null", ""};
  MOEC_ASSIGN(const auto flags, model.file.values.get_array<bool>(key));
  MOEC_ASSIGN(const auto factor, model.number(item.times));
  std::vector<float> products;
  for (const bool flag : flags) products.push_back(flag ? factor.value_or(0) : 0);
  return TakenValue{fmt::format("[{}]", fmt::join(products, ", ")), ""};
}

Result<TakenValue> value_of(const GgufModel& model, const GgufConcept& item, const Concept& meant) {
  if (item.is) return TakenValue{to_string(*item.is), ""};
  if (!item.has.empty() && has_in_a_layer(model, item.has)) return TakenValue{"true", ""};
  if (!item.has.empty()) return TakenValue{"false", fmt::format("tensor \"{}\"", item.has)};
  if (!item.times.empty()) return listed_products(model, item);
  MOEC_ASSIGN(TakenValue value, from_keys(model, item, meant));
  if (!item.names.empty()) {
    MOEC_ASSIGN(value.text, named(model, item, meant, value.text));
  } else if (item.zero && value.text == "0") {
    value.text = fmt::format("{}", *item.zero);
  }
  return value;
}

Result<std::string> vocabulary_size(const GgufModel& model) {
  const GgufValues& values = model.file.values;
  MOEC_ASSIGN(const auto size, values.find<uint32_t>(model.key("vocab_size")));
  if (size) return std::to_string(*size);
  // Some files lack the key. The vocabulary then has one entry per token.
  const auto tokens = values.keys().find("tokenizer.ggml.tokens");
  if (tokens != values.keys().end() && tokens->second.is_array)
    return std::to_string(tokens->second.count);
  return fail("gguf.missing_key",
              fmt::format("the vocabulary size is unknown: neither \"{}\" nor "
                          "\"tokenizer.ggml.tokens\" is in the file",
                          model.key("vocab_size")),
              "convert the model again", {.file = values.file()});
}

// ---- The config --------------------------------------------------------------------------------

class ConfigWriter {
 public:
  explicit ConfigWriter(const GgufModel& model) : model_(model) {}

  Result<GgufConfig> run(const ReadFloats& read) {
    // First, because an unknown key can be the cause of later errors.
    MOEC_ASSIGN(warnings_, check_keys(model_));
    entries_["model_type"] = fmt::format("\"{}\"", model_.family.model_type);
    MOEC_ASSIGN(const std::string vocabulary, vocabulary_size(model_));
    MOEC_TRY(set_concept("vocab", vocabulary));
    // llama.cpp uses the token embedding as the head if output.weight is absent.
    MOEC_TRY(set_concept("tied_head", model_.find("output.weight") ? "false" : "true"));
    for (const auto& [key, value] : model_.architecture.config) entries_[key] = to_string(value);
    for (const auto& [name, item] : model_.architecture.concepts)
      if (item.unread.empty() && item.listed.empty()) MOEC_TRY(take(name, item));
    MOEC_TRY(take_layers());
    if (model_.family.axes.rope != RopeStyle::none) {
      MOEC_ASSIGN(entries_["rope_parameters"], rope_text(model_, read));
    }
    MOEC_ASSIGN(const std::vector<int64_t> ends, gguf_ends(model_.file.values));
    if (!ends.empty()) entries_["eos_token_id"] = fmt::format("[{}]", fmt::join(ends, ", "));
    std::vector<std::string> lines;
    for (const auto& [key, value] : entries_)
      lines.push_back(fmt::format("\"{}\": {}", key, value));
    return GgufConfig{fmt::format("{{{}}}", fmt::join(lines, ",\n")), std::move(warnings_)};
  }

 private:
  Status take(const std::string& name, const GgufConcept& item) {
    const Concept* meant = find_concept(name);
    const auto rule = model_.family.concepts.find(name);
    const bool read = rule != model_.family.concepts.end() && !rule->second.keys.empty();
    // Without a key of the family, the value cannot change the config, but it must be a known one.
    const bool is_set = read || !item.as.empty();
    if (meant == nullptr || (!is_set && item.names.empty())) return {};
    MOEC_ASSIGN(const TakenValue value, value_of(model_, item, *meant));
    if (!is_set) return {};
    if (!value.absent.empty() && read) warn_of_default(rule->second, value);
    return set(item.as.empty() ? rule->second.keys.front() : item.as, value.text);
  }

  // The number of layers, which take() has set; 0 for a number that read_config() refuses.
  int64_t layer_count() const {
    const auto rule = model_.family.concepts.find("layers");
    const auto entry = rule == model_.family.concepts.end() || rule->second.keys.empty()
                           ? entries_.end()
                           : entries_.find(rule->second.keys.front());
    const auto count =
        entry == entries_.end() ? std::nullopt : parse_number<int64_t>(entry->second);
    return count && *count <= find_concept("layers")->maximum ? *count : 0;
  }

  Status take_layers() {
    const int64_t count = layer_count();
    for (const auto& [name, item] : model_.architecture.concepts)
      if (!item.listed.empty()) MOEC_TRY(take_listed(name, item, count));
    const GgufLayers& layers = model_.architecture.layers;
    if (layers.list.empty()) return {};
    MOEC_ASSIGN(const GgufLayerFacts facts, gguf_layer_facts(model_, count));
    for (const auto& [name, value] : facts.concepts)
      MOEC_TRY(set_concept(name, std::to_string(value)));
    return set_concept(layers.list, names_as_json(facts.kinds));
  }

  static std::string names_as_json(const std::vector<std::string>& names) {
    return fmt::format("[\"{}\"]", fmt::join(names, "\", \""));
  }

  Status take_listed(const std::string& name, const GgufConcept& item, int64_t count) {
    int64_t leading = 0;
    if (item.has.empty()) {
      MOEC_ASSIGN(const TakenValue value, from_keys(model_, item, *find_concept("layers")));
      leading = parse_number<int64_t>(value.text).value_or(0);
    }
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) {
      const bool second =
          item.has.empty() ? i >= leading : model_.find(block_name(i, item.has)) != nullptr;
      names.push_back(item.listed[second ? 1 : 0]);
    }
    return set_concept(name, names_as_json(names));
  }

  // Warns if llama.cpp's default differs from the family's, because an old converter may have
  // omitted the key.
  void warn_of_default(const ConceptRule& rule, const TakenValue& value) {
    if (!rule.fallback || rule.fallback->is_null() || same_value(*rule.fallback, value.text))
      return;
    warnings_.push_back({Severity::warning,
                         "gguf.absent",
                         fmt::format("there is no {}, so \"{}\" is {}, llama.cpp's default; the "
                                     "default of the family {} is {}",
                                     value.absent, rule.keys.front(), value.text,
                                     model_.family.model_type, to_string(*rule.fallback)),
                         "compare the model with its Hugging Face checkpoint",
                         {.file = model_.file.values.file()}});
  }

  // The numbers 1 and 1.0 are equal, although they are different JSON values.
  static bool same_value(const JsonValue& known, const std::string& text) {
    const auto value = parse_json(text, {});
    return value && (*value == known || (value->number() && value->number() == known.number()));
  }

  Status set_concept(std::string_view name, const std::string& value) {
    const auto rule = model_.family.concepts.find(name);
    if (rule == model_.family.concepts.end() || rule->second.keys.empty()) return {};
    return set(rule->second.keys.front(), value);
  }

  // Sets a key of the config. If two concepts share a key, their values must agree.
  Status set(const std::string& key, const std::string& value) {
    const auto [entry, is_new] = entries_.emplace(key, value);
    if (is_new || entry->second == value) return {};
    return fail("gguf.conflict",
                fmt::format("\"{}\" would have to be both {} and {}, which the family {} cannot "
                            "express",
                            key, entry->second, value, model_.family.model_type),
                "use the Hugging Face checkpoint of the model",
                {.file = model_.file.values.file()});
  }

  const GgufModel& model_;
  std::map<std::string, std::string> entries_;
  Diagnostics warnings_;
};

}  // namespace

Result<GgufConfig> gguf_config(const GgufModel& model, const ReadFloats& read) {
  return ConfigWriter(model).run(read);
}

}  // namespace moec
