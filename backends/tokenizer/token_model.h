// Models of tokenizer.json: how a word becomes tokens.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backends/tokenizer/component.h"
#include "backends/tokenizer/vocabulary.h"

namespace moec {

class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  // Appends the tokens of a word, which is valid UTF-8 and not empty. Error tokenizer.unknown: it
  // has a character that no token stands for, and the model has no token for unknown ones. Not for
  // two threads at once.
  virtual Status encode(std::string_view word, std::vector<int64_t>& tokens) = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

// Reads BPE, Unigram, WordLevel and WordPiece. Errors: tokenizer.component (another type, dropout),
// tokenizer.malformed.
Result<std::unique_ptr<TokenModel>> read_token_model(const JsonReport& report,
                                                     const JsonValue& value);

// The models by type; `fields` has had its type read.
Result<std::unique_ptr<TokenModel>> read_bpe(JsonFields& fields);
Result<std::unique_ptr<TokenModel>> read_unigram(JsonFields& fields);
Result<std::unique_ptr<TokenModel>> read_word_level(JsonFields& fields);
Result<std::unique_ptr<TokenModel>> read_word_piece(JsonFields& fields);

// The member "vocab", an object of ids by token.
Result<Vocabulary> read_vocabulary(JsonFields& fields);

// Error tokenizer.unknown: no token stands for the characters, and none for unknown ones.
tl::unexpected<Diagnostics> fail_unknown(std::string_view characters);

// The token that stands for a byte if no token stands for its character: "<0x0A>".
std::string fallback_token(uint8_t byte);
// The byte that a token stands for in this way.
std::optional<uint8_t> fallback_byte(std::string_view token);

}  // namespace moec
