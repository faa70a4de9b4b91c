// Encodes and decodes texts with a model's tokenizer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Token ids and their decoded text.
struct TokenizedText {
  std::vector<int64_t> tokens;
  std::string text;                 // decoded, without special tokens
  std::vector<std::string> pieces;  // text that each token adds
};

// Encodes a text and decodes the tokens. `model` is a checkpoint folder, a GGUF file or an export.
// Errors: those of ModelTokenizer::encode() and TextDecoder.
Result<TokenizedText> tokenize(const std::string& model, std::string_view text);
// Decodes token ids. Errors: tokenizer.missing, those of TextDecoder.
Result<TokenizedText> detokenize(const std::string& model, std::vector<int64_t> tokens);

// Tokenizes each prompt of a suite (measure/prompt_suite.h). Errors: those of
// read_prompt_suite() and tokenize().
Result<std::vector<TokenizedText>> tokenize_suite(const std::string& model,
                                                  const std::string& prompts);

nlohmann::ordered_json tokenized_json(const TokenizedText& tokenized);

}  // namespace moec
