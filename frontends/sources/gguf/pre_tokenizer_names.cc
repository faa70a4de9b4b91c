#include "frontends/sources/gguf/pre_tokenizer_names.h"

#include <algorithm>
#include <vector>

namespace moec {
namespace {

// Placeholders for steps that have no expression in tokenizer.json: GPT-2's expression, which is
// built into ByteLevel, and the splitting of digits.
constexpr std::string_view kGpt2 = "gpt-2", kDigits = "digits";

// The expressions are those of published tokenizer.json files, byte for byte. pre_tokenizer_name()
// compares them as texts.
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

// An entry for one family precedes an entry for any family with the same expressions.
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

constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Names with the same behaviour as the pre-tokenizer `like`.
struct SharedCut {
  std::string_view like;
  std::vector<std::string_view> names;
};

const std::vector<SharedCut>& shared_cuts() {
  static const std::vector<SharedCut> shared = {
      {"gpt-2", {"gpt-2", "olmo", "mpt", "jais", "trillion", "granite-docling", "phi-2"}},
      {"refact",
       {"refact", "smollm", "starcoder", "command-r", "codeshell", "exaone", "minerva-7b",
        "mellum2"}},
      {"qwen2",
       {"qwen2", "stablelm2", "hunyuan", "solar-open", "deepseek-r1-qwen", "megrez", "grok-2"}},
      {"llama-bpe",
       {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}},
      {"glm4", {"glm4", "chatglm-bpe", "dbrx", "smaug-bpe"}},
      {"gpt-4o", {"gpt-4o", "llama4", "minimax-m2"}},
      {"deepseek-v3", {"deepseek-v3", "hunyuan-dense", "joyai-llm"}},
      {"tekken", {"tekken"}},
      {"qwen35", {"qwen35"}},
  };
  return shared;
}

// Returns the entry `like` for a name of llama.cpp; empty if the name is unknown.
std::string_view shared_name(std::string_view name) {
  for (const SharedCut& cut : shared_cuts())
    if (std::find(cut.names.begin(), cut.names.end(), name) != cut.names.end()) return cut.like;
  return {};
}

std::string_view text_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value && value->string() ? std::string_view(*value->string()) : std::string_view();
}

bool flag_of(const JsonValue& object, std::string_view key, bool otherwise) {
  const JsonValue* value = object.find(key);
  return value && value->boolean() ? *value->boolean() : otherwise;
}

// Returns true if the split returns each match, and the text between matches, as pieces.
bool keeps_matches(const JsonValue& split) {
  const std::string_view behaviour = text_of(split, "behavior");
  const bool inverted = flag_of(split, "invert", false);
  return (behaviour == "Isolated" && !inverted) || (behaviour == "Removed" && inverted);
}

// Returns the expressions of one step; absent if the step is not supported.
std::optional<std::vector<std::string_view>> expressions_of(const JsonValue& step) {
  // The defaults are those of the tokenizers library for absent members.
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
  // A tokenizer with a single step can have the step itself instead of a sequence.
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
  // Without merges, each byte is a token regardless of the pre-tokenizer.
  if (!has_merges && expressions->empty()) return kGpt2;
  for (const KnownPreTokenizer& known : known_pre_tokenizers())
    if (known.expressions == *expressions && (known.family.empty() || known.family == family))
      return known.name;
  return std::nullopt;
}

std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name) {
  // `whole_words` and `adds_bos` are llama.cpp's defaults for these names.
  const std::string_view like = shared_name(name);
  if (like == "gpt-2") return NamedPreTokenizer{};
  if (like == "refact") return NamedPreTokenizer{.single_digits = true};
  if (like == "qwen2") return NamedPreTokenizer{.expressions = {kQwen2}};
  if (like == "qwen35") return NamedPreTokenizer{.expressions = {kQwen35}};
  if (like == "llama-bpe")
    return NamedPreTokenizer{.expressions = {kLlama3}, .whole_words = true, .adds_bos = true};
  if (like == "glm4") return NamedPreTokenizer{.expressions = {kLlama3}};
  if (like == "gpt-4o") return NamedPreTokenizer{.expressions = {kGpt4o}};
  if (like == "deepseek-v3")
    return NamedPreTokenizer{.expressions = {kDeepseekDigits, kDeepseekHan, kDeepseekWords}};
  if (like == "tekken")
    return NamedPreTokenizer{.expressions = {kTekken}, .whole_words = true, .adds_bos = true};
  return std::nullopt;
}

}  // namespace moec
