// Writes the tokenizer of a checkpoint as keys of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// Returns the keys "tokenizer.…" of a checkpoint folder whose tokenizer.json is byte-level BPE:
// tokens, their types, merges, pre-tokenizer, special tokens and the chat template. Ids below the
// vocabulary size without a token get the names [PADn]. If the checkpoint has no bos or eos token,
// the token of byte 0xff is used, which no UTF-8 text contains; readers would default to id 11.
// Without a tokenizer (note export.no_tokenizer), or if it is not `wanted`, tokenizer.ggml.model is
// "none".
//
// Errors: gguf.tokenizer (another kind of tokenizer, ids outside the vocabulary, duplicate tokens),
// gguf.pre_tokenizer (the pre-tokenizer has no name in GGUF), tokenizer.malformed, file.*.
Result<std::vector<GgufEntry>> tokenizer_keys(const std::string& source, const ModelConfig& model,
                                              bool wanted, Diagnostics& notes);

}  // namespace moec
