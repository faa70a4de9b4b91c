// The tokenizer that the keys of a GGUF file describe, as the files of a Hugging Face checkpoint.
#pragma once

#include <string>

#include "backends/formats/gguf/gguf_values.h"

namespace moec {

// Whether the file has a tokenizer: not if "tokenizer.ggml.model" is absent, "none" or "no_vocab".
bool has_gguf_tokenizer(const GgufValues& values);

// The text of a tokenizer.json. Tokenizers "gpt2" (byte-level BPE) have their merges and the cut
// that "tokenizer.ggml.pre" names; of "llama" (SentencePiece), whose tokens have scores, each way
// to make a token of two others is a merge, the highest score first. Errors: gguf.tokenizer
// (another kind), gguf.pre_tokenizer (no cut is named, or one that moec cannot state),
// gguf.missing_key, gguf.key_type.
Result<std::string> gguf_tokenizer_json(const GgufValues& values);

// The text of a tokenizer_config.json: the texts of the special tokens, and the chat template.
// Errors: gguf.key_type.
Result<std::string> gguf_tokenizer_config(const GgufValues& values);

}  // namespace moec
