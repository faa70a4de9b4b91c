#include "frontends/export/gguf/pre_tokenizers.h"

#include <algorithm>
#include <vector>

namespace moec {
namespace {

// The expression of GPT-2, which ByteLevel uses by itself, stands as "gpt-2" here; that of single
// digits as "digits".
constexpr std::string_view kGpt2 = "gpt-2", kDigits = "digits";

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekDigits = R"(\p{N}{1,3})";
constexpr std::string_view kDeepseekHan = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr std::string_view kDeepseekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct KnownPreTokenizer {
  std::string_view name;
  std::vector<std::string_view> expressions;
  std::string_view family;  // empty: any
};

// Entries of a family come before those of any with the same expressions.
const std::vector<KnownPreTokenizer>& known_pre_tokenizers() {
  static const std::vector<KnownPreTokenizer> known = {
      {"olmo", {kGpt2}, "olmoe"},
      {"gpt-2", {kGpt2}, ""},
      {"refact", {kDigits, kGpt2}, ""},
      {"qwen2", {kQwen2}, ""},
      {"glm4", {kLlama3}, "glm4_moe"},
      {"llama-bpe", {kLlama3}, ""},
      {"llama4", {kGpt4o}, "llama4_text"},
      {"gpt-4o", {kGpt4o}, ""},
      {"deepseek-v3", {kDeepseekDigits, kDeepseekHan, kDeepseekWords}, ""},
  };
  return known;
}

std::string_view text_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value && value->string() ? std::string_view(*value->string()) : std::string_view();
}

bool flag_of(const JsonValue& object, std::string_view key, bool otherwise) {
  const JsonValue* value = object.find(key);
  return value && value->boolean() ? *value->boolean() : otherwise;
}

// Each match is a piece, and so is what lies between matches.
bool keeps_matches(const JsonValue& split) {
  const std::string_view behaviour = text_of(split, "behavior");
  const bool inverted = flag_of(split, "invert", false);
  return (behaviour == "Isolated" && !inverted) || (behaviour == "Removed" && inverted);
}

// The expressions of one step, or nothing where it does something else.
std::optional<std::vector<std::string_view>> expressions_of(const JsonValue& step) {
  const std::string_view type = text_of(step, "type");
  if (type == "ByteLevel" && !flag_of(step, "add_prefix_space", true)) {
    if (flag_of(step, "use_regex", true)) return std::vector{kGpt2};
    return std::vector<std::string_view>();
  }
  if (type == "Digits" && flag_of(step, "individual_digits", false)) return std::vector{kDigits};
  const JsonValue* pattern = step.find("pattern");
  if (type != "Split" || pattern == nullptr || !keeps_matches(step)) return std::nullopt;
  const std::string_view expression = text_of(*pattern, "Regex");
  return expression.empty() ? std::nullopt : std::optional(std::vector{expression});
}

std::optional<std::vector<std::string_view>> all_expressions(const JsonValue& pre_tokenizer) {
  const JsonValue* steps = pre_tokenizer.find("pretokenizers");
  if (text_of(pre_tokenizer, "type") != "Sequence" || steps == nullptr || !steps->array())
    return expressions_of(pre_tokenizer);
  std::vector<std::string_view> all;
  for (const JsonValue& step : *steps->array()) {
    const auto more = expressions_of(step);
    if (!more) return std::nullopt;
    all.insert(all.end(), more->begin(), more->end());
  }
  return all;
}

}  // namespace

std::optional<std::string_view> pre_tokenizer_name(const JsonValue& pre_tokenizer,
                                                   std::string_view family, bool has_merges) {
  const auto expressions = all_expressions(pre_tokenizer);
  if (!expressions) return std::nullopt;
  if (!has_merges && expressions->empty()) return kGpt2;
  for (const KnownPreTokenizer& known : known_pre_tokenizers())
    if (known.expressions == *expressions && (known.family.empty() || known.family == family))
      return known.name;
  return std::nullopt;
}

}  // namespace moec
