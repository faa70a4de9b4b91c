// The config.json that the keys of a GGUF file stand for, so that a GGUF is read, checked and
// explained as any other checkpoint of its family.
#pragma once

#include <string>

#include "frontends/sources/gguf/gguf_model.h"

namespace moec {

struct GgufConfig {
  std::string text;  // of a config.json
  Diagnostics warnings;
};

// The config. Errors: gguf.missing_key, gguf.key_type, gguf.value (what the family has
// no word for), gguf.conflict (two sources of one key of the config), those of `read`.
//
// Warning gguf.absent: the file leaves out a key or a tensor, and what llama.cpp computes then is
// not what models of the family have by default.
Result<GgufConfig> gguf_config(const GgufModel& model, const ReadFloats& read);

}  // namespace moec
