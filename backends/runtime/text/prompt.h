// What a model starts from: token ids, or a text whose bytes are its tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct Prompt {
  std::vector<int64_t> tokens;
  std::optional<std::string> text;  // set where the tokens are the bytes of a text
};

// Fails with run.token if the model's vocabulary has no token of this id. `argument` names where
// the id came from, for the message: "--stop-token".
Status check_token(std::string_view argument, int64_t token, const Manifest& manifest);

// A prompt of token ids, each of them checked. Error: run.token.
Result<Prompt> prompt_of_tokens(std::string_view argument, std::vector<int64_t> tokens,
                                const Manifest& manifest);

// Fails with run.no_tokenizer if the model's tokens are not bytes, so that text cannot be encoded.
Status check_takes_text(const Manifest& manifest);

// A prompt of the bytes of `text`. No text at all, or an empty one for a model that writes text, is
// run.no_prompt; a model that labels tokens takes an empty text and finds nothing in it. Further
// error: run.no_tokenizer.
Result<Prompt> prompt_of_text(std::optional<std::string> text, const Manifest& manifest);

}  // namespace moec
