// What a model starts from: token ids, or a text that its tokenizer turns into them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/tokenizer/model_tokenizer.h"

namespace moec {

struct Prompt {
  std::vector<int64_t> tokens;
  std::optional<std::string> text;  // that the tokens were made of
  // Of a text whose tokens are labelled: the bytes of it that each token stands for.
  std::optional<std::vector<int64_t>> byte_counts;
};

// The tokenizer of an export: the bytes of a text if the manifest says so, else the export's
// tokenizer.json, if it has one.
ModelTokenizer export_tokenizer(const std::string& folder, const Manifest& manifest);

// Fails with run.token if the model's vocabulary has no token of this id. `argument` names where
// the id came from, for the message: "--stop-token".
Status check_token(std::string_view argument, int64_t token, const Manifest& manifest);

// A prompt of token ids, each of them checked. Error: run.token.
Result<Prompt> prompt_of_tokens(std::string_view argument, std::vector<int64_t> tokens,
                                const Manifest& manifest);

// Fails with run.no_tokenizer if the model has no tokenizer, so that text cannot be encoded.
Status check_takes_text(const ModelTokenizer& tokenizer);

// A prompt of the tokens of `text`, with those that the tokenizer puts around a text, unless the
// model labels tokens. No text at all, or an empty one for a model that writes text, is
// run.no_prompt; a model that labels tokens takes an empty text and finds nothing in it. Further
// errors: run.no_tokenizer, those of ModelTokenizer::encode().
Result<Prompt> prompt_of_text(std::optional<std::string> text, const Manifest& manifest,
                              const ModelTokenizer& tokenizer);

}  // namespace moec
