#include "frontends/jobs/tokenize/tokenize_text.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/tokenizer/model_tokenizer.h"
#include "frontends/measure/prompt_suite.h"
#include "frontends/sources/open_source.h"
#include "ir/base/name_file.h"

namespace moec {

namespace {

ModelTokenizer tokenizer_of(const std::string& model) {
  // Does not limit ids: the command shows what the tokenizer yields, whatever the vocabulary.
  return source_tokenizer(model, std::numeric_limits<int64_t>::max());
}

Result<TokenizedText> decode(const ModelTokenizer& tokenizer, std::vector<int64_t> tokens) {
  MOEC_ASSIGN(const Tokenizer* opened, tokenizer.get());
  if (!opened)
    return fail("tokenizer.missing", "the model has no tokenizer",
                "pass a model with a tokenizer.json, or a GGUF file with a tokenizer");
  TokenizedText made{std::move(tokens), {}, {}};
  // Decodes all tokens at once, because a character may span several tokens.
  MOEC_ASSIGN(made.text, opened->decode(made.tokens));
  TextDecoder decoder(opened);
  for (const int64_t token : made.tokens) {
    // A token that ends inside a character has an empty piece; the next one completes it.
    MOEC_ASSIGN(std::string piece, decoder.add(token));
    made.pieces.push_back(std::move(piece));
  }
  MOEC_ASSIGN(const std::string rest, decoder.finish());
  // Bytes of an incomplete last character belong to the last token.
  if (!made.pieces.empty()) made.pieces.back() += rest;
  return made;
}

Result<TokenizedText> encode(const ModelTokenizer& tokenizer, std::string_view text) {
  MOEC_ASSIGN(std::vector<int64_t> tokens, tokenizer.encode(text));
  return decode(tokenizer, std::move(tokens));
}

}  // namespace

Result<TokenizedText> tokenize(const std::string& model, std::string_view text) {
  return encode(tokenizer_of(model), text);
}

Result<TokenizedText> detokenize(const std::string& model, std::vector<int64_t> tokens) {
  return decode(tokenizer_of(model), std::move(tokens));
}

Result<std::vector<TokenizedText>> tokenize_suite(const std::string& model,
                                                  const std::string& prompts) {
  MOEC_ASSIGN(const std::vector<SuitePrompt> suite, read_prompt_suite(prompts));
  // One object serves the whole suite, so that the tokenizer is read only once.
  const ModelTokenizer tokenizer = tokenizer_of(model);
  std::vector<TokenizedText> texts;
  for (const SuitePrompt& prompt : suite) {
    MOEC_ASSIGN(TokenizedText text, naming_place(prompt.text ? encode(tokenizer, *prompt.text)
                                                             : decode(tokenizer, prompt.tokens),
                                                 prompt.place));
    texts.push_back(std::move(text));
  }
  return texts;
}

nlohmann::ordered_json tokenized_json(const TokenizedText& tokenized) {
  return {{"tokens", tokenized.tokens}, {"text", tokenized.text}, {"pieces", tokenized.pieces}};
}

}  // namespace moec
