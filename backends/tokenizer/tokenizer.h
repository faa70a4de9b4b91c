// Turns text into the tokens of a model and back, as a tokenizer.json of Hugging Face says.
//
// The result is that of the package tokenizers. A component that moec lacks is an error that names
// it, never another result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/json.h"

namespace moec {

// The longest tokenizer.json that is read, in bytes. A token or merge is a few values, so the bytes
// are what limits one.
inline constexpr uint64_t kMaxTokenizerBytes = 128u << 20;
inline constexpr JsonLimits kTokenizerLimits{.bytes = kMaxTokenizerBytes,
                                             .values = kMaxTokenizerBytes / 4};

// Whether the tokens that a tokenizer puts around a text are put there: not if the text has them
// already, as one from a chat template does.
enum class SpecialTokens : uint8_t { add, leave_out };

class Tokenizer {
 public:
  // Reads a tokenizer.json; `path` is for messages. Padding and truncation are not applied, as
  // transformers does not. Errors: tokenizer.component, tokenizer.pattern, tokenizer.malformed.
  static Result<Tokenizer> parse(std::string_view json, const std::string& path);
  // The same of a file. Further errors: tokenizer.missing, tokenizer.too_long, file.*.
  static Result<Tokenizer> open(const std::string& path);
  // The tokenizer whose tokens are the bytes of a text, of any bytes.
  static Tokenizer bytes();

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // The tokens of a text. Safe from several threads. Errors: tokenizer.utf8 (the text is not valid
  // UTF-8), tokenizer.unknown, tokenizer.pattern_limit.
  Result<std::vector<int64_t>> encode(std::string_view text, SpecialTokens special) const;

  // The text of tokens without special ones; an id that no token has is left out. What is not valid
  // UTF-8 becomes U+FFFD.
  Result<std::string> decode(std::span<const int64_t> tokens) const;

  // How many bytes of the text each token stands for, if the text is exactly theirs, one after the
  // other: so for tokenizers that do not change a text. Nothing otherwise.
  std::optional<std::vector<int64_t>> byte_counts(std::span<const int64_t> tokens,
                                                  std::string_view text) const;

  // The id of a token by its text, special or not.
  std::optional<int64_t> find(std::string_view token) const;
  // One above the greatest id.
  int64_t size() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

// Decodes tokens one by one: a character whose bytes are in several tokens comes with its last one.
class TextDecoder {
 public:
  // The tokenizer must outlive it. Null for a model without one: a token is its id and a space.
  explicit TextDecoder(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // The text that the token adds. Errors: those of decode().
  Result<std::string> add(int64_t token);
  // What is left, if the text ends within a character.
  Result<std::string> finish();

 private:
  const Tokenizer* tokenizer_;
  std::vector<int64_t> tokens_;  // since the latest place at which all bytes were whole
  size_t given_ = 0;             // of them, those whose text was given
};

}  // namespace moec
