// Copies a checkpoint's tokenizer, chat template and sampling parameters into its export, so that a
// program that runs the shards can convert text to token ids and back.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// The names of these files on the Hugging Face hub, among them SentencePiece and tiktoken models.
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

// Whether one of the carried files in the folder is enough to encode text.
bool has_tokenizer(const std::string& folder);

// Copies those of the files that exist in the folder `source` to the folder `out`, byte for byte.
// The result is in the order above. Errors: those of RegularFile for a source (a dangling symbolic
// link included), those of OutputFile for a copy.
Result<std::vector<manifest::FileRef>> carry_files(const std::string& source,
                                                   const std::string& out, bool sha256);

}  // namespace moec
