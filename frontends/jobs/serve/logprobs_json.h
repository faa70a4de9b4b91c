// Log probabilities of an answer's tokens, in the format of the OpenAI API.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/text/logprobs.h"
#include "backends/tokenizer/tokenizer.h"

namespace moec {

struct TextLogprob {
  Logprob value;
  std::string text;  // text that the token adds; for a special token, its name
};

struct TextLogprobs {
  TextLogprob chosen;
  std::vector<TextLogprob> top;
  int64_t offset = 0;  // number of characters of the preceding tokens
};

// Decodes the tokens of an answer one by one.
class LogprobNames {
 public:
  // `tokenizer` must outlive the object; null: texts are the token ids. `before` is the last token
  // of the prompt.
  LogprobNames(const Tokenizer* tokenizer, int64_t before)
      : tokenizer_(tokenizer), before_(before) {}
  // Errors: those of Tokenizer::decode().
  Result<TextLogprobs> add(const TokenLogprobs& token);

 private:
  // `known` is the text of the preceding token.
  Result<TextLogprob> named(const Logprob& token, const std::string& known) const;

  const Tokenizer* tokenizer_;
  int64_t before_;
  int64_t offset_ = 0;
};

// {"content": [{"token", "logprob", "bytes", "id", "top_logprobs"}], "refusal": null}. "bytes" is
// null for an incomplete character.
nlohmann::ordered_json chat_logprobs_json(const std::vector<TextLogprobs>& tokens);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}.
nlohmann::ordered_json text_logprobs_json(const std::vector<TextLogprobs>& tokens);

}  // namespace moec
