#include "frontends/sources/gguf/gguf_tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "frontends/sources/gguf/pre_tokenizer_names.h"
#include "ir/base/json.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr const char* kModel = "tokenizer.ggml.model";
constexpr const char* kSpace = "\u2581";  // SentencePiece's character for a space
constexpr const char* kNextStep = "pass token ids, or use the model's Hugging Face checkpoint";

// Values of "tokenizer.ggml.token_type".
enum class TokenKind : int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

struct Tokens {
  std::vector<std::string_view> texts;
  std::vector<TokenKind> kinds;
};

Result<Tokens> read_tokens(const GgufValues& values) {
  Tokens tokens;
  MOEC_ASSIGN(tokens.texts, values.get_array<std::string_view>("tokenizer.ggml.tokens"));
  MOEC_ASSIGN(const auto kinds, values.find_array<int32_t>("tokenizer.ggml.token_type"));
  // llama.cpp requires no types; without them, every token is a normal one.
  tokens.kinds.assign(tokens.texts.size(), TokenKind::normal);
  if (!kinds) return tokens;
  if (kinds->size() < tokens.texts.size())
    return fail("gguf.tokenizer",
                fmt::format("the file has {} tokens, but only {} token types", tokens.texts.size(),
                            kinds->size()),
                kNextStep, {.file = values.file()});
  for (size_t i = 0; i < tokens.kinds.size(); ++i)
    // The cast does not check the value. vocabulary_json() includes tokens of an unknown kind.
    tokens.kinds[i] = static_cast<TokenKind>((*kinds)[i]);
  return tokens;
}

// Appends members to the underlying list, because each insertion into the object would search all
// existing members.
ordered_json vocabulary_json(const Tokens& tokens) {
  ordered_json::object_t vocabulary;
  ordered_json::object_t::Container& members = vocabulary;
  for (size_t i = 0; i < tokens.texts.size(); ++i)
    if (tokens.kinds[i] != TokenKind::unused) members.emplace_back(std::string(tokens.texts[i]), i);
  return vocabulary;
}

// Control tokens delimit texts and are special. User-defined tokens are parts of a text.
ordered_json added_json(const Tokens& tokens) {
  auto added = ordered_json::array();
  for (size_t i = 0; i < tokens.texts.size(); ++i) {
    const bool special =
        tokens.kinds[i] == TokenKind::control || tokens.kinds[i] == TokenKind::unknown;
    if (!special && tokens.kinds[i] != TokenKind::user_defined) continue;
    added.push_back({{"id", i},
                     {"content", tokens.texts[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

ordered_json sequence_json(const char* list, std::vector<ordered_json> steps) {
  return {{"type", "Sequence"}, {list, std::move(steps)}};
}

ordered_json byte_level_json(bool uses_pattern) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", uses_pattern}};
}

ordered_json pre_tokenizer_json(const NamedPreTokenizer& named) {
  std::vector<ordered_json> steps;
  // Digits are split first, because the expressions that follow would join them.
  if (named.single_digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  for (const std::string_view expression : named.expressions)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  // ByteLevel's built-in expression is GPT-2's. It must not cut the pieces of other expressions.
  steps.push_back(byte_level_json(named.expressions.empty()));
  return sequence_json("pretokenizers", std::move(steps));
}

// Adds the special tokens that the file requires at the beginning and the end of a text.
Result<ordered_json> post_processor_json(const GgufValues& values, const Tokens& tokens,
                                         bool adds_bos) {
  auto single = ordered_json::array();
  auto special = ordered_json::object();
  const auto add = [&](std::string_view kind, bool otherwise) -> Status {
    MOEC_ASSIGN(const auto wanted,
                values.find<bool>(fmt::format("tokenizer.ggml.add_{}_token", kind)));
    if (!wanted.value_or(otherwise)) return {};
    MOEC_ASSIGN(const uint32_t id,
                values.get<uint32_t>(fmt::format("tokenizer.ggml.{}_token_id", kind)));
    if (id >= tokens.texts.size())
      return fail("gguf.tokenizer", fmt::format("the {} token {} does not exist", kind, id),
                  kNextStep, {.file = values.file()});
    const std::string text(tokens.texts[id]);
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
    return {};
  };
  MOEC_TRY(add("bos", adds_bos));
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  MOEC_TRY(add("eos", false));
  // A template without special tokens would have no effect; null means the same.
  if (special.empty()) return ordered_json();
  return ordered_json{{"type", "TemplateProcessing"},
                      {"single", single},
                      {"pair", single},
                      {"special_tokens", special}};
}

ordered_json bpe_json(ordered_json vocabulary, ordered_json merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

Result<ordered_json> byte_level_tokenizer(const GgufValues& values, const Tokens& tokens) {
  MOEC_ASSIGN(const auto pre, values.find<std::string_view>("tokenizer.ggml.pre"));
  const auto named = pre ? named_pre_tokenizer(*pre) : std::nullopt;
  if (!named)
    return fail("gguf.pre_tokenizer",
                pre ? fmt::format("\"tokenizer.ggml.pre\" is \"{}\", an unknown pre-tokenizer",
                                  printable(*pre, 60))
                    : std::string("\"tokenizer.ggml.pre\", the pre-tokenizer, is missing"),
                kNextStep, {.file = values.file()});
  MOEC_ASSIGN(const auto merges, values.get_array<std::string_view>("tokenizer.ggml.merges"));
  ordered_json json;
  json["added_tokens"] = added_json(tokens);
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = pre_tokenizer_json(*named);
  MOEC_ASSIGN(json["post_processor"], post_processor_json(values, tokens, named->adds_bos));
  json["decoder"] = byte_level_json(true);
  json["model"] = bpe_json(vocabulary_json(tokens), merges);
  json["model"]["ignore_merges"] = named->whole_words;
  return json;
}

// Returns each pair of tokens with a concatenation that is also a token, in SentencePiece's merge
// order.
Result<ordered_json> merges_of_scores(const GgufValues& values, const Tokens& tokens) {
  MOEC_ASSIGN(const auto scores, values.get_array<float>("tokenizer.ggml.scores"));
  if (scores.size() < tokens.texts.size())
    return fail("gguf.tokenizer",
                fmt::format("the file has {} tokens, but only {} scores", tokens.texts.size(),
                            scores.size()),
                kNextStep, {.file = values.file()});
  // Byte and control tokens must be neither the result nor a part of a merge.
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t i = 0; i < tokens.texts.size(); ++i)
    if (tokens.kinds[i] == TokenKind::normal) ids.emplace(tokens.texts[i], i);
  struct Merge {
    size_t token, left, right;
  };
  std::vector<Merge> merges;
  for (const auto& [text, token] : ids)
    // A cut inside a UTF-8 character matches no token of valid UTF-8.
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.push_back({token, left->second, right->second});
    }
  // The ids break ties, because the order of an unordered map is unspecified.
  std::sort(merges.begin(), merges.end(), [&](const Merge& a, const Merge& b) {
    if (scores[a.token] != scores[b.token]) return scores[a.token] > scores[b.token];
    return std::pair(a.left, a.right) < std::pair(b.left, b.right);
  });
  auto json = ordered_json::array();
  for (const Merge& merge : merges)
    json.push_back({tokens.texts[merge.left], tokens.texts[merge.right]});
  return json;
}

Result<ordered_json> sentencepiece_tokenizer(const GgufValues& values, const Tokens& tokens) {
  MOEC_ASSIGN(const auto prefix, values.find<bool>("tokenizer.ggml.add_space_prefix"));
  MOEC_ASSIGN(const auto unknown, values.find<uint32_t>("tokenizer.ggml.unknown_token_id"));
  const bool adds_space = prefix.value_or(true);
  const ordered_json to_mark = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  std::vector<ordered_json> normalizers;
  if (adds_space) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  normalizers.push_back(to_mark);
  std::vector<ordered_json> decoders = {
      {{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
      {{"type", "ByteFallback"}},
      {{"type", "Fuse"}}};
  // The decoder removes the space that the normalizer prepends.
  if (adds_space)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  ordered_json json;
  json["added_tokens"] = added_json(tokens);
  json["normalizer"] = sequence_json("normalizers", std::move(normalizers));
  json["pre_tokenizer"] = nullptr;
  // llama.cpp adds the BOS token for SentencePiece models unless add_bos_token is false.
  MOEC_ASSIGN(json["post_processor"], post_processor_json(values, tokens, true));
  json["decoder"] = sequence_json("decoders", std::move(decoders));
  MOEC_ASSIGN(ordered_json merges, merges_of_scores(values, tokens));
  json["model"] = bpe_json(vocabulary_json(tokens), std::move(merges));
  json["model"]["byte_fallback"] = true;
  json["model"]["fuse_unk"] = true;
  // Id 0 is llama.cpp's default for SentencePiece models.
  const size_t unknown_id = unknown.value_or(0);
  if (unknown_id < tokens.texts.size()) json["model"]["unk_token"] = tokens.texts[unknown_id];
  return json;
}

}  // namespace

bool has_gguf_tokenizer(const GgufValues& values) {
  const auto model = values.find<std::string_view>(kModel);
  // Both names mean that the file has no tokenizer.
  return model && *model && **model != "none" && **model != "no_vocab";
}

Result<std::string> gguf_tokenizer_json(const GgufValues& values) {
  MOEC_ASSIGN(const std::string_view model, values.get<std::string_view>(kModel));
  MOEC_ASSIGN(const Tokens tokens, read_tokens(values));
  if (model != "gpt2" && model != "llama")
    return fail("gguf.tokenizer",
                fmt::format("\"{}\" is \"{}\", an unsupported kind of tokenizer", kModel,
                            printable(model, 60)),
                kNextStep, {.file = values.file()});
  MOEC_ASSIGN(const ordered_json parts, model == "gpt2" ? byte_level_tokenizer(values, tokens)
                                                        : sentencepiece_tokenizer(values, tokens));
  ordered_json json = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json.update(parts);
  return json_text(json, 1);
}

Result<std::string> gguf_tokenizer_config(const GgufValues& values) {
  MOEC_ASSIGN(const auto tokens, values.find_array<std::string_view>("tokenizer.ggml.tokens"));
  // Runtimes ignore a chat template without a class of tokenizers (onnxruntime-genai 0.18).
  ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const auto& [name, kind] : {std::pair("bos", "bos"), std::pair("eos", "eos"),
                                   std::pair("unk", "unknown"), std::pair("pad", "padding")}) {
    MOEC_ASSIGN(const auto id,
                values.find<uint32_t>(fmt::format("tokenizer.ggml.{}_token_id", kind)));
    if (id && tokens && *id < tokens->size()) json[fmt::format("{}_token", name)] = (*tokens)[*id];
  }
  MOEC_ASSIGN(const auto chat, values.find<std::string_view>("tokenizer.chat_template"));
  if (chat) json["chat_template"] = *chat;
  return json_text(json, 1);
}

}  // namespace moec
