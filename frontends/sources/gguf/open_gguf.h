// Opens a model in GGUF files, so that it is exported like a Hugging Face checkpoint.
#pragma once

#include <string>

#include "frontends/sources/gguf/gguf_model.h"
#include "frontends/sources/hf/checkpoint.h"

namespace moec {

// Whether a source names a GGUF file, by its ending or its first bytes.
bool names_gguf(const std::string& source);

// Reads the factors of the rotation from the files, which must outlive the function: at most 4096
// of f32. Errors: gguf.tensor_type, file.*.
ReadFloats float_reader(const Gguf& file);

// The model that the keys describe, with the names of the file's tensors.
struct GgufConfigModel {
  ModelConfig model;
  Diagnostics warnings;
};

// Without a look at the tensors but for the factors of the rotation, which `read` gives. Errors:
// those of identify(), gguf_config() and read_config() of that text.
Result<GgufConfigModel> gguf_model_config(const Gguf& file, const ReadFloats& read);

// The model that the headers describe; Errors: those of gguf_model_config() and derive_weights().
Result<Checkpoint> gguf_checkpoint(const Gguf& file, const ReadFloats& read);

// Reads headers only. Of a model in several files, `path` names the first. Errors: those of
// read_gguf() and gguf_checkpoint().
Result<Checkpoint> open_gguf(const std::string& path);

// The text of the config that the file's keys stand for (gguf_config.h).
Result<std::string> gguf_config_text(const std::string& path);

}  // namespace moec
