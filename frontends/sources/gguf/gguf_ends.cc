#include "frontends/sources/gguf/gguf_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

namespace moec {
namespace {

// Texts by which llama.cpp searches for a kind of end token, unless the file has the key for it.
struct EndKind {
  std::string_view key;
  std::vector<std::string_view> texts;
};

// The first kind has no key, so its texts are always searched. A kind with a key is searched only
// if the file lacks the key.
const std::array<EndKind, 4>& end_kinds() {
  static const std::array<EndKind, 4> kinds = {{
      {"",
       {"</s>",
        "<EOT>",
        "<end_of_turn>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<|calls|>",
        "<|call|>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<|end|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|flush|>",
        "<|ifm|im_end|>",
        "<|im_end|>",
        "<|return|>",
        "<|tool_response>",
        "<｜end▁of▁sentence｜>",
        "[EOS]",
        "[EOT]",
        "[e~[",
        "_<EOT>"}},
      {"fim_pad", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {"fim_rep", {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {"fim_sep", {"<|file_sep|>", "<|plamo:file_separator|>"}},
  }};
  return kinds;
}
constexpr std::array<std::string_view, 3> kEndKeys = {"eos", "eot", "eom"};

std::string key_of(std::string_view kind) {
  return fmt::format("tokenizer.ggml.{}_token_id", kind);
}

using Ids = std::map<std::string_view, int64_t>;

// If the vocabulary has both end tokens of gpt-oss, llama.cpp does not end a text at <|end|>, which
// in gpt-oss only closes a part of an answer. If the vocabulary has Gemma 4's end token, llama.cpp
// does not end a text at </s>.
void remove_parts_of_answers(Ids& found) {
  if (found.contains("<|return|>") && found.contains("<|call|>")) found.erase("<|end|>");
  if (found.contains("<|tool_response>")) found.erase("</s>");
}

template <class Text>
std::set<int64_t> find_texts(const std::vector<Text>& tokens,
                             const std::set<std::string_view>& given) {
  std::set<std::string_view> wanted;
  for (const EndKind& kind : end_kinds())
    if (!given.contains(kind.key)) wanted.insert(kind.texts.begin(), kind.texts.end());
  Ids found;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (const auto text = wanted.find(tokens[id]); text != wanted.end())
      found[*text] = static_cast<int64_t>(id);
  remove_parts_of_answers(found);
  std::set<int64_t> ids;
  for (const auto& [text, id] : found) ids.insert(id);
  return ids;
}

}  // namespace

template <class Text>
std::vector<int64_t> ends_by_text(const std::vector<Text>& tokens) {
  const std::set<int64_t> ids = find_texts(tokens, {});
  return {ids.begin(), ids.end()};
}
template std::vector<int64_t> ends_by_text(const std::vector<std::string>&);
template std::vector<int64_t> ends_by_text(const std::vector<std::string_view>&);

Result<std::vector<int64_t>> gguf_ends(const GgufValues& values) {
  std::set<int64_t> ids;
  std::set<std::string_view> given;
  const auto take = [&](std::string_view kind) -> Status {
    MOEC_ASSIGN(const auto id, values.find<uint32_t>(key_of(kind)));
    if (!id) return {};
    ids.insert(*id);
    given.insert(kind);
    return {};
  };
  for (const std::string_view kind : kEndKeys) MOEC_TRY(take(kind));
  for (const EndKind& kind : end_kinds())
    if (!kind.key.empty()) MOEC_TRY(take(kind.key));
  MOEC_ASSIGN(const auto tokens, values.find_array<std::string_view>("tokenizer.ggml.tokens"));
  if (tokens) ids.merge(find_texts(*tokens, given));
  return std::vector<int64_t>(ids.begin(), ids.end());
}

}  // namespace moec
