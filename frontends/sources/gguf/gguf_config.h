// Converts the keys of a GGUF file to a config.json. A GGUF file is then read, checked and
// explained like any other checkpoint of its family.
#pragma once

#include <string>

#include "frontends/sources/gguf/gguf_model.h"

namespace moec {

struct GgufConfig {
  std::string text;  // text of a config.json
  Diagnostics warnings;
};

// Returns the config. Errors: gguf.missing_key, gguf.key_type, gguf.value (a value that the family
// cannot express), gguf.conflict (two sources of one config key differ), those of `read`.
//
// Warning gguf.absent: the file lacks a key or a tensor, and llama.cpp's default differs from the
// default of the family.
Result<GgufConfig> gguf_config(const GgufModel& model, const ReadFloats& read);

}  // namespace moec
