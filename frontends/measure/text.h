// The text of a run: tokens, cut into windows that run through a model independently.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/tokenizer/model_tokenizer.h"
#include "ir/base/at.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_profile.h"

namespace moec {

// The tokens [first, first + count) of one window, without padding. Token numbers continue across
// windows and do not count padding.
struct TextPart {
  int64_t first = 0, count = 0;
  size_t document = 0;
  int half = 0;  // 0 or 1: half of the text, for measurements on held-out text
};

struct Text {
  // Tokens of all windows, which have equal sizes. The last window of a document is padded with
  // copies of its last token, which run through the model but are not counted.
  std::vector<int64_t> tokens;
  int64_t window = 0;
  int64_t unused = 0;           // tokens after the last window, which are not part of `tokens`
  std::vector<TextPart> parts;  // one per window
  // Empty unless the text was cut by cut_documents().
  std::vector<size_t> category_of;          // per document: index into `categories`
  std::vector<ProfileCategory> categories;  // in the order of their first documents

  int64_t windows() const { return std::ssize(parts); }
  // Number of tokens without padding: of a window, and of the text.
  int64_t used(int64_t index) const { return at(parts, index).count; }
  int64_t count() const { return parts.empty() ? 0 : parts.back().first + parts.back().count; }
  // The tokens of a window without padding.
  std::span<const int64_t> tokens_of(int64_t index) const {
    return std::span(tokens).subspan(static_cast<size_t>(index * window),
                                     static_cast<size_t>(used(index)));
  }
};

struct Document {
  std::string category;
  std::vector<int64_t> tokens;  // at least one
};

// Category of documents without a given category.
inline constexpr const char* kTextCategory = "text";

// Returns the maximum number of tokens of a window in which all tokens can attend to one another.
int64_t longest_window(const Manifest& manifest);

// Sources of a command's text.
struct TextSource {
  std::string command;              // prefix of error codes: "calibrate"
  std::string model;                // model folder, for messages
  std::vector<std::string> texts;   // files, read in order
  std::vector<std::string> tokens;  // files of token ids, separated by spaces, lines or commas
  std::string prompts;              // a suite (prompt_suite.h), which replaces all other sources
  std::string prompt;               // a text
};

// Returns the file of an option that was given, and no file of an option that was not.
std::vector<std::string> given_file(const std::string& path);

// Cuts tokens, at least one, into windows of `window` tokens, without documents. Drops the tokens
// after the last full window. A text that is shorter than a window becomes a single, smaller
// window.
Text cut_tokens(std::vector<int64_t> tokens, int64_t window);
// Cuts documents into windows of `window` tokens, or of the longest document's length if that is
// shorter. Each document begins a window. The documents of a category are assigned to the halves
// alternately. If there is only one document, its windows alternate instead.
Text cut_documents(const std::vector<Document>& documents, int64_t window);

// Reads the files of token ids if there are any; otherwise, reads the texts and encodes each
// separately. Joins the tokens and cuts them with cut_tokens(). Errors: those of
// ModelTokenizer::encode(), and these, prefixed with the command's name:
//   window        less than 1
//   text          unreadable file
//   empty         no tokens
//   no_tokenizer  a text for a model without a tokenizer
//   tokens        a word that is not a token id
//   vocabulary    an id outside the vocabulary
// Errors of a text name its file, and those of a suite's prompt also its line.
Result<Text> read_windows(const TextSource& source, const ModelTokenizer& tokenizer,
                          int64_t window);

// Reads the prompts of the suite, or the prompt and each file, as one document each; at least one.
// Errors: those of read_windows() except window, empty for each document; those of
// read_prompt_suite().
Result<std::vector<Document>> read_documents(const TextSource& source,
                                             const ModelTokenizer& tokenizer);

// Returns the digest of the tokens of a text, which calibration indexes and expert profiles record.
std::string digest_of_tokens(std::span<const int64_t> tokens);

}  // namespace moec
