// The config.json that the keys of a GGUF file stand for, so that a GGUF is read, checked and
// explained as any other checkpoint of its family.
#pragma once

#include <string>

#include "frontends/gguf/gguf_model.h"

namespace moec {

// The text of the config. Errors: gguf.missing_key, gguf.key_type, gguf.value (what the family has
// no word for), gguf.conflict (two sources of one key of the config), those of `read`.
Result<std::string> config_text(const GgufModel& model, const ReadFloats& read);

}  // namespace moec
