// The tokenizer of a checkpoint as keys of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// The keys "tokenizer.…" of a checkpoint folder that has a tokenizer.json of byte-level BPE:
// tokens, their types, merges, the cut of the text before these, special tokens and the chat
// template. Ids up to the size of the vocabulary that have no token get the names [PADn]. Where the
// checkpoint names no first or last token, the one of byte 0xff stands for it, which no text
// contains: readers would take number 11. Without a tokenizer (note export.no_tokenizer), or where
// none is wanted, tokens are numbers: tokenizer.ggml.model is "none".
//
// Errors: gguf.tokenizer (another kind of tokenizer, ids outside the vocabulary, tokens that are
// there twice), gguf.pre_tokenizer (its cut has no name in GGUF), tokenizer.malformed, file.*.
Result<std::vector<GgufEntry>> tokenizer_keys(const std::string& source, const ModelConfig& model,
                                              bool wanted, Diagnostics& notes);

}  // namespace moec
