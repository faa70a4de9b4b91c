// Opens a model in GGUF files, so that it is exported like a Hugging Face checkpoint.
#pragma once

#include <string>

#include "frontends/gguf/gguf_model.h"
#include "frontends/hf/checkpoint.h"

namespace moec {

// Whether a source names a GGUF file, by its ending or its first bytes.
bool names_gguf(const std::string& source);

// The model that the headers describe; `read` gives the factors of its rotation. Errors: those of
// identify(), gguf_config(), read_config() of that text, and derive_weights().
Result<Checkpoint> gguf_checkpoint(const Gguf& file, const ReadFloats& read);

// Reads headers only. Of a model in several files, `path` names the first. Errors: those of
// read_gguf() and gguf_checkpoint().
Result<Checkpoint> open_gguf(const std::string& path);

// The text of the config that the file's keys stand for (gguf_config.h).
Result<std::string> gguf_config_text(const std::string& path);

}  // namespace moec
