// The input of a model: token ids, or a text encoded by its tokenizer.
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
  std::optional<std::string> text;  // the source of the tokens
  // Bytes of the text per token, if the model labels tokens (Tokenizer::byte_counts).
  std::optional<std::vector<int64_t>> byte_counts;
};

// The tokenizer of an export: bytes if the manifest declares them, else the export's tokenizer.json
// if it exists.
ModelTokenizer export_tokenizer(const std::string& folder, const Manifest& manifest);

// Fails with run.token if the model's vocabulary has no token of this id. `argument` names where
// the id came from, for the message: "--stop-token".
Status check_token(std::string_view argument, int64_t token, const Manifest& manifest);

// A prompt of token ids, each of them checked. Error: run.token.
Result<Prompt> prompt_of_tokens(std::string_view argument, std::vector<int64_t> tokens,
                                const Manifest& manifest);

// Fails with run.no_tokenizer if the model has no tokenizer, so that text cannot be encoded.
Status check_takes_text(const ModelTokenizer& tokenizer);

// Encodes `text`, with special tokens unless the model labels tokens. Errors: run.no_prompt (no
// text, or an empty one for a model that generates text), run.no_tokenizer, those of
// ModelTokenizer::encode().
Result<Prompt> prompt_of_text(std::optional<std::string> text, const Manifest& manifest,
                              const ModelTokenizer& tokenizer);

}  // namespace moec
