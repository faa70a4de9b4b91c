// Files of a checkpoint that go into its export as they are, so that a program which runs the
// shards can turn text into token ids and back: tokenizer, chat template, and how to sample.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// The names under which the Hugging Face hub keeps them, and SentencePiece and tiktoken models.
inline constexpr std::array kCarriedFiles = {"tokenizer.json",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "added_tokens.json",
                                             "vocab.json",
                                             "merges.txt",
                                             "vocab.txt",
                                             "tokenizer.model",
                                             "spiece.model",
                                             "tiktoken.model",
                                             "chat_template.jinja",
                                             "chat_template.json",
                                             "generation_config.json"};

// Copies those that the folder `source` has to the folder `out`, byte for byte, in the order above.
// Errors: those of RegularFile for a source, those of OutputFile for a copy.
Result<std::vector<manifest::FileRef>> carry_files(const std::string& source,
                                                   const std::string& out, bool sha256);

}  // namespace moec
