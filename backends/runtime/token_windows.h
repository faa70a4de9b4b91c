// A text of a user as windows of tokens, each of which is run through a model by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/runtime/tokenizer.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Whole windows of tokens; what is left over behind them is not used. A text that is shorter than a
// window is one window.
struct TokenWindows {
  std::vector<int64_t> tokens;
  int64_t window = 0;
  int64_t unused = 0;  // tokens behind the last window

  int64_t windows() const { return std::ssize(tokens) / window; }
};

// What a command was given to read tokens from.
struct TextSource {
  std::string command;             // errors have codes of it: "calibrate"
  std::vector<std::string> texts;  // files, one after the other, for models whose tokens are bytes
  std::string tokens_file;         // or token ids, separated by spaces, lines or commas
  std::string model;               // its folder, for messages
};

struct TextVocabulary {
  TokenizerKind tokenizer = TokenizerKind::none;
  int64_t size = 0;
};

// Reads the texts, or the file of token ids where one is named, and splits them into windows of
// `window` tokens, at least one. Errors, behind the command's name and a dot: text (a file cannot
// be read), empty (no tokens), no_tokenizer (a text for a model whose tokens are not bytes), tokens
// (not a token id), vocabulary (a token id that the model does not have), window (below 1).
Result<TokenWindows> read_windows(const TextSource& source, const TextVocabulary& vocabulary,
                                  int64_t window);

}  // namespace moec
