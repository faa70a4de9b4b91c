// Opens a model in GGUF files, so that it is exported like a Hugging Face checkpoint.
#pragma once

#include <string>

#include "frontends/hf/checkpoint.h"

namespace moec {

// Whether a source names a GGUF file, by its ending or its first bytes.
bool names_gguf(const std::string& source);

// Headers only. Of a model in several files, `path` names the first. Errors: those of read_gguf(),
// identify(), gguf_config(), read_config() of that text, check_model() and derive_weights().
Result<Checkpoint> open_gguf(const std::string& path);

// The text of the config that the file's keys stand for (gguf_config.h).
Result<std::string> gguf_config_text(const std::string& path);

}  // namespace moec
