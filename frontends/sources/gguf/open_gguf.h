// Opens GGUF files as a checkpoint, like a Hugging Face folder.
#pragma once

#include <string>

#include "frontends/sources/gguf/gguf_model.h"
#include "frontends/sources/hf/checkpoint.h"

namespace moec {

// Returns true if `source` is a GGUF file, judging by its extension or its first bytes.
bool names_gguf(const std::string& source);

// Returns a function that reads rotary factors from the files: f32 tensors of at most 4,096
// elements. `file` must outlive the function. Errors of the function: gguf.tensor_type, file.*.
ReadFloats float_reader(const Gguf& file);

// The model that the keys describe, with the tensor names of the file.
struct GgufConfigModel {
  ModelConfig model;
  Diagnostics warnings;
};

// Reads the model from the keys. The only tensors that it uses are the rotary factors, which `read`
// returns. Errors: those of identify(), gguf_config() and read_config().
Result<GgufConfigModel> gguf_model_config(const Gguf& file, const ReadFloats& read);

// Returns the checkpoint that the headers describe. Errors: those of gguf_model_config() and
// derive_weights().
Result<Checkpoint> gguf_checkpoint(const Gguf& file, const ReadFloats& read);

// Reads headers only. For a model in several files, `path` must name the first. Errors: those of
// read_gguf() and gguf_checkpoint().
Result<Checkpoint> open_gguf(const std::string& path);

// Returns the text of the config.json that the file's keys describe (gguf_config.h).
Result<std::string> gguf_config_text(const std::string& path);

}  // namespace moec
