// Converts the tokenizer keys of a GGUF file to the files of a Hugging Face checkpoint.
#pragma once

#include <string>

#include "backends/formats/gguf/gguf_values.h"

namespace moec {

// Returns false if "tokenizer.ggml.model" is absent, "none" or "no_vocab".
bool has_gguf_tokenizer(const GgufValues& values);

// Returns the text of a tokenizer.json. For "gpt2" (byte-level BPE), uses the stored merges and the
// pre-tokenizer that "tokenizer.ggml.pre" names. For "llama" (SentencePiece), which stores scores,
// every split of a token into two tokens becomes a merge, highest score first. Errors:
// gguf.tokenizer (another kind), gguf.pre_tokenizer (missing or unknown name), gguf.missing_key,
// gguf.key_type.
Result<std::string> gguf_tokenizer_json(const GgufValues& values);

// Returns the text of a tokenizer_config.json with the special tokens and the chat template.
// Errors: gguf.key_type.
Result<std::string> gguf_tokenizer_config(const GgufValues& values);

}  // namespace moec
