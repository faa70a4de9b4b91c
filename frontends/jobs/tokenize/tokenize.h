// What a model's tokenizer makes of texts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// The tokens of a text, and the text that they stand for.
struct TokenizedText {
  std::vector<int64_t> tokens;
  std::string text;                 // without special tokens
  std::vector<std::string> pieces;  // the text that each token adds, in order
};

// `model` is a checkpoint folder, a GGUF file or an exported folder in all of these.

// Errors: those of ModelTokenizer::encode() and TextDecoder.
Result<TokenizedText> tokenize(const std::string& model, std::string_view text);
// The text of token ids. Errors: tokenizer.missing, those of TextDecoder.
Result<TokenizedText> detokenize(const std::string& model, std::vector<int64_t> tokens);

// The texts of a suite of prompts (measure/prompt_suite.h), one after the other. Errors: those of
// read_prompt_suite() and tokenize().
Result<std::vector<TokenizedText>> tokenize_suite(const std::string& model,
                                                  const std::string& prompts);

nlohmann::ordered_json tokenized_json(const TokenizedText& tokenized);

}  // namespace moec
