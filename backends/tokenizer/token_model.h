// Models of tokenizer.json: encode one word as tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/tokenizer/component.h"
#include "ir/base/diagnostics.h"

namespace moec {

// A bidirectional map between tokens and ids.
class Vocabulary {
 public:
  // Adds a token. Error: tokenizer.malformed, without a place, if the id is negative, above 2^24 or
  // in use, or if the token exists.
  Status add(std::string token, int64_t id);
  std::optional<int64_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }
  // Returns the token with this id, or null.
  const std::string* token(int64_t id) const;
  // Returns the largest id plus one.
  int64_t size() const { return std::ssize(tokens_); }
  size_t count() const { return ids_.size(); }
  const std::unordered_map<std::string_view, int64_t>& ids() const { return ids_; }

 private:
  std::vector<std::unique_ptr<const std::string>> tokens_;
  std::unordered_map<std::string_view, int64_t> ids_;  // views into `tokens_`
};

class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  // Appends the tokens of a word, which must be valid UTF-8 and not empty. Not thread-safe. Error:
  // tokenizer.unknown if a character has no token and the model has no unknown token.
  virtual Status encode(std::string_view word, std::vector<int64_t>& tokens) = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

// Reads BPE, Unigram, WordLevel and WordPiece. Errors: tokenizer.component (another type, dropout),
// tokenizer.malformed.
Result<std::unique_ptr<TokenModel>> read_token_model(const JsonReport& report,
                                                     const JsonValue& value);

// Readers per type, called after the type has been read.
Result<std::unique_ptr<TokenModel>> read_bpe(JsonFields& fields);
Result<std::unique_ptr<TokenModel>> read_unigram(JsonFields& fields);
Result<std::unique_ptr<TokenModel>> read_word_level(JsonFields& fields);
Result<std::unique_ptr<TokenModel>> read_word_piece(JsonFields& fields);

// Reads the member "vocab": an object that maps tokens to ids.
Result<Vocabulary> read_vocabulary(JsonFields& fields);

// Returns the error tokenizer.unknown for characters without a token.
tl::unexpected<Diagnostics> fail_unknown(std::string_view characters);

// Returns the byte-fallback token of a byte: "<0x0A>".
std::string fallback_token(uint8_t byte);
// Returns the byte of a byte-fallback token; nullopt for other tokens.
std::optional<uint8_t> fallback_byte(std::string_view token);

}  // namespace moec
