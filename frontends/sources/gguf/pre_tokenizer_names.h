// Maps names of byte-level pre-tokenizers, which GGUF files store, to regular expressions, which
// tokenizer.json stores, and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/json.h"

namespace moec {

// Returns the GGUF name of the `pre_tokenizer` of a tokenizer.json; absent if the pre-tokenizer is
// unknown. If several names have the same expressions, prefers the name of `family`. If not
// `has_merges`, each byte is a token, so all pre-tokenizers are equivalent.
std::optional<std::string_view> pre_tokenizer_name(const JsonValue& pre_tokenizer,
                                                   std::string_view family, bool has_merges);

// Pre-tokenizer that a value of "tokenizer.ggml.pre" names. Source: llama.cpp, llama-vocab.cpp.
struct NamedPreTokenizer {
  bool single_digits = false;  // each digit is split off first
  // Regular expressions, applied in order; empty: GPT-2's expression.
  std::vector<std::string_view> expressions;
  // Additional behaviour of llama.cpp for this name: a word that is a token is not split
  // (`whole_words`), and a text begins with bos unless a key overrides this (`adds_bos`).
  bool whole_words = false, adds_bos = false;
};

// Returns the pre-tokenizer of a name; absent if the name is unknown, or if tokenizer.json cannot
// express the pre-tokenizer.
std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);

}  // namespace moec
