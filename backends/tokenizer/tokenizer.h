// Encodes text as token ids and decodes ids, as defined by a Hugging Face tokenizer.json.
//
// Results equal those of the package tokenizers. A component that is not implemented causes an
// error that names the component, never a different tokenization.
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

// Maximum size of a tokenizer.json in bytes. A token or a merge consists of a few JSON values, so
// the size bounds the number of values.
inline constexpr uint64_t kMaxTokenizerBytes = 128u << 20;
inline constexpr JsonLimits kTokenizerLimits{.bytes = kMaxTokenizerBytes,
                                             .values = kMaxTokenizerBytes / 4};

// Selects whether encode() adds the special tokens of the post-processor. Leave them out if the
// text already contains them, as the output of a chat template does.
enum class SpecialTokens : uint8_t { add, leave_out };

class Tokenizer {
 public:
  // Parses a tokenizer.json; `path` is for messages. Padding and truncation are ignored, as in
  // transformers. Errors: tokenizer.component, tokenizer.pattern, tokenizer.malformed.
  static Result<Tokenizer> parse(std::string_view json, const std::string& path);
  // Parses a file. Further errors: tokenizer.missing, tokenizer.too_long, file.*.
  static Result<Tokenizer> open(const std::string& path);
  // Returns the tokenizer whose ids are byte values, which encodes arbitrary bytes.
  static Tokenizer bytes();

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Encodes a text. Thread-safe. Errors: tokenizer.utf8 (invalid UTF-8), tokenizer.unknown,
  // tokenizer.pattern_limit.
  Result<std::vector<int64_t>> encode(std::string_view text, SpecialTokens special) const;

  // Decodes ids. Special tokens and unknown ids are skipped; invalid UTF-8 becomes U+FFFD.
  Result<std::string> decode(std::span<const int64_t> tokens) const;

  // Returns the number of bytes of `text` that each token covers. Returns nullopt unless the
  // tokens' bytes, concatenated, equal the text; a normalizer may prevent that.
  std::optional<std::vector<int64_t>> byte_counts(std::span<const int64_t> tokens,
                                                  std::string_view text) const;

  // Returns the id of a token, which may be an added token.
  std::optional<int64_t> find(std::string_view token) const;
  // Returns the string of a token, which may be an added token: "Ġthe", "<|im_end|>".
  std::optional<std::string> name(int64_t token) const;
  // Returns the largest id plus one.
  int64_t size() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

// Decodes a stream of tokens. A character split across tokens is returned with its last token.
class TextDecoder {
 public:
  // `tokenizer` must outlive the decoder. If null, a token decodes to its id and a space.
  explicit TextDecoder(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // Returns the text that the token adds. Errors: those of decode().
  Result<std::string> add(int64_t token);
  // Returns the remaining text if the stream ends within a character.
  Result<std::string> finish();

 private:
  const Tokenizer* tokenizer_;
  std::vector<int64_t> tokens_;  // since the previous complete character
  size_t given_ = 0;             // tokens whose text was returned
};

}  // namespace moec
