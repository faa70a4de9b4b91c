#include "frontends/jobs/serve/logprobs_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace moec {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD: decoded from invalid UTF-8

int64_t characters(std::string_view text) {
  // Bytes of the form 10xxxxxx continue a character.
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

ordered_json bytes_json(const std::string& text) {
  // If the text contains a replacement, the token's own bytes are unknown.
  if (text.find(kReplacement) != std::string::npos) return nullptr;
  ordered_json bytes = ordered_json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

ordered_json logprob_json(const TextLogprob& token) {
  return {{"token", token.text},
          {"logprob", token.value.logprob},
          {"bytes", bytes_json(token.text)},
          {"id", token.value.token}};
}

}  // namespace

Result<TextLogprobs> LogprobNames::add(const TokenLogprobs& token) {
  std::string known;
  if (tokenizer_) {
    MOEC_ASSIGN(known, tokenizer_->decode(std::array{before_}));
  }
  TextLogprobs found;
  MOEC_ASSIGN(found.chosen, named(token.chosen, known));
  for (const Logprob& one : token.top) {
    MOEC_ASSIGN(TextLogprob other, named(one, known));
    found.top.push_back(std::move(other));
  }
  found.offset = offset_;
  offset_ += characters(found.chosen.text);
  before_ = token.chosen.token;
  return found;
}

// Decodes the token together with its predecessor, because some decoders drop the leading space of
// the first token.
Result<TextLogprob> LogprobNames::named(const Logprob& token, const std::string& known) const {
  if (!tokenizer_) return TextLogprob{token, std::to_string(token.token)};
  MOEC_ASSIGN(const std::string both, tokenizer_->decode(std::array{before_, token.token}));
  // A decoder may change the text of the predecessor; then the difference is unknown.
  std::string text = both.starts_with(known) ? both.substr(known.size()) : std::string();
  // Special tokens decode to an empty text, but have a name.
  if (text.empty()) text = tokenizer_->name(token.token).value_or("");
  return TextLogprob{token, std::move(text)};
}

ordered_json chat_logprobs_json(const std::vector<TextLogprobs>& tokens) {
  ordered_json content = ordered_json::array();
  for (const TextLogprobs& token : tokens) {
    ordered_json item = logprob_json(token.chosen);
    item["top_logprobs"] = ordered_json::array();
    for (const TextLogprob& one : token.top) item["top_logprobs"].push_back(logprob_json(one));
    content.push_back(std::move(item));
  }
  return {{"content", content}, {"refusal", nullptr}};
}

ordered_json text_logprobs_json(const std::vector<TextLogprobs>& tokens) {
  ordered_json texts = ordered_json::array(), logprobs = texts, tops = texts, offsets = texts;
  for (const TextLogprobs& token : tokens) {
    texts.push_back(token.chosen.text);
    logprobs.push_back(token.chosen.value.logprob);
    ordered_json top = ordered_json::object();
    // emplace() keeps the first of several tokens with equal text.
    for (const TextLogprob& one : token.top) top.emplace(one.text, one.value.logprob);
    tops.push_back(std::move(top));
    offsets.push_back(token.offset);
  }
  return {{"tokens", texts},
          {"token_logprobs", logprobs},
          {"top_logprobs", tops},
          {"text_offset", offsets}};
}

}  // namespace moec
