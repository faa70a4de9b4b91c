// The input of a model: token ids, or a text encoded with the model's tokenizer.
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
  std::optional<std::string> text;  // source of the tokens
  // Bytes of the text per token, if the model labels tokens (Tokenizer::byte_counts).
  std::optional<std::vector<int64_t>> byte_counts;
};

// Returns the tokenizer of an export: the byte tokenizer if the manifest declares it, otherwise
// that of tokenizer.json in `folder`, if the file exists.
ModelTokenizer export_tokenizer(const std::string& folder, const Manifest& manifest);

// Fails with run.token if the id is outside the model's vocabulary. `argument` names the flag in
// the message: "--stop-token".
Status check_token(std::string_view argument, int64_t token, const Manifest& manifest);

// Checks each id and returns them as a prompt. Error: run.token.
Result<Prompt> prompt_of_tokens(std::string_view argument, std::vector<int64_t> tokens,
                                const Manifest& manifest);

// Succeeds if the export has a tokenizer to encode text. Error: run.no_tokenizer.
Status check_takes_text(const ModelTokenizer& tokenizer);

// Encodes `text`, with special tokens unless the model labels tokens. Errors: run.no_prompt (`text`
// is absent, or empty for a model that generates text), run.no_tokenizer, those of
// ModelTokenizer::encode().
Result<Prompt> prompt_of_text(std::optional<std::string> text, const Manifest& manifest,
                              const ModelTokenizer& tokenizer);

}  // namespace moec
