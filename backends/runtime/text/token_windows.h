// Splits a text into windows of tokens that run through a model independently.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "ir/base/at.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Windows of equal size. Tokens after the last full window are unused. A text that is shorter than
// a window becomes a single, smaller window.
struct TokenWindows {
  std::vector<int64_t> tokens;
  int64_t window = 0;
  int64_t unused = 0;  // tokens after the last window
  // Number of text tokens per window; the tokens after them are padding. Empty: no window has
  // padding.
  std::vector<int64_t> counts;

  int64_t used(int64_t index) const { return counts.empty() ? window : at(counts, index); }
  int64_t windows() const { return std::ssize(tokens) / window; }
};

// Returns the maximum number of tokens of a window in which all tokens can attend to one another.
int64_t longest_window(const Manifest& manifest);

// Sources of a command's tokens: text files, or one file of token ids.
struct TextSource {
  std::string command;             // prefix of error codes: "calibrate"
  std::vector<std::string> texts;  // files, read in order
  std::string tokens_file;         // file of token ids, separated by spaces, lines or commas
  std::string model;               // model folder, for messages
};

// Reads the file of token ids if `tokens_file` is set; otherwise, reads the texts and encodes each
// separately. Errors, prefixed with the command's name: text (unreadable file), empty (no tokens),
// no_tokenizer (a text for a model without a tokenizer), tokens (a word that is not a token id),
// vocabulary (an id outside the vocabulary); those of ModelTokenizer::encode().
Result<std::vector<int64_t>> read_tokens(const TextSource& source, const ModelTokenizer& tokenizer);
// Encodes a text that is not from a file. Errors: no_tokenizer, those of
// ModelTokenizer::encode().
Result<std::vector<int64_t>> encode_text(const TextSource& source, const ModelTokenizer& tokenizer,
                                         std::string_view text);
// Error: vocabulary, as for read_tokens().
Status check_vocabulary(const std::vector<int64_t>& tokens, const TextSource& source, int64_t size);

// Reads tokens as read_tokens() does and splits them into windows of `window` tokens, which must be
// at least 1. Errors: those of read_tokens(), window.
Result<TokenWindows> read_windows(const TextSource& source, const ModelTokenizer& tokenizer,
                                  int64_t window);

// Returns the digest of the tokens of a text, which calibration indexes and expert profiles record.
std::string digest_of_tokens(std::span<const int64_t> tokens);

}  // namespace moec
