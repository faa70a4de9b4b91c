// A text of a user as windows of tokens, each of which is run through a model by itself.
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

// Whole windows of tokens; what is left over behind them is not used. A text that is shorter than a
// window is one window.
struct TokenWindows {
  std::vector<int64_t> tokens;
  int64_t window = 0;
  int64_t unused = 0;  // tokens behind the last window
  // How many tokens of each window are of the text; those behind them fill it up. Empty: all.
  std::vector<int64_t> counts;

  int64_t used(int64_t index) const { return counts.empty() ? window : at(counts, index); }
  int64_t windows() const { return std::ssize(tokens) / window; }
};

// The most tokens of an export that see one another.
int64_t longest_window(const Manifest& manifest);

// What a command was given to read tokens from.
struct TextSource {
  std::string command;             // errors have codes of it: "calibrate"
  std::vector<std::string> texts;  // files, one after the other
  std::string tokens_file;         // or token ids, separated by spaces, lines or commas
  std::string model;               // its folder, for messages
};

// Reads the texts, each encoded by itself, or the file of token ids if one is named. Errors, behind
// the command's name and a dot: text (a file cannot be read), empty (no tokens), no_tokenizer (a
// text for a model without one), tokens (not a token id), vocabulary (a token id that the model
// does not have); those of ModelTokenizer::encode().
Result<std::vector<int64_t>> read_tokens(const TextSource& source, const ModelTokenizer& tokenizer);
// The tokens of a text that is no file. Errors: no_tokenizer, those of ModelTokenizer::encode().
Result<std::vector<int64_t>> encode_text(const TextSource& source, const ModelTokenizer& tokenizer,
                                         std::string_view text);
// Error vocabulary of read_tokens().
Status check_vocabulary(const std::vector<int64_t>& tokens, const TextSource& source, int64_t size);

// Reads the texts, or the file of token ids if one is named, and splits them into windows of
// `window` tokens, at least one. Errors: those of read_tokens(), and window (below 1).
Result<TokenWindows> read_windows(const TextSource& source, const ModelTokenizer& tokenizer,
                                  int64_t window);

// The digest of a text in the index of a calibration and in an expert profile.
std::string digest_of_tokens(std::span<const int64_t> tokens);

}  // namespace moec
