// How a byte-level tokenizer cuts text before its merges: files of GGUF state a name for it, the
// files of checkpoints the regular expressions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/json.h"

namespace moec {

// The name of the pre_tokenizer of a tokenizer.json, of those that share its expressions that of
// the family. Nothing where it is not known: files of GGUF cannot state expressions. `has_merges`:
// without merges each byte is a token, however text is cut.
std::optional<std::string_view> pre_tokenizer_name(const JsonValue& pre_tokenizer,
                                                   std::string_view family, bool has_merges);

// What a name in "tokenizer.ggml.pre" stands for (llama.cpp, llama-vocab.cpp).
struct NamedPreTokenizer {
  bool single_digits = false;  // each digit is a piece first
  // Regular expressions one after the other; empty: that of GPT-2.
  std::vector<std::string_view> expressions;
  // What llama.cpp does with it besides: a word that is a token is not cut, and a text begins with
  // the first token unless the file says otherwise.
  bool whole_words = false, adds_bos = false;
};

// Nothing for a name that is not known, or whose expressions tokenizer.json cannot state.
std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);

}  // namespace moec
