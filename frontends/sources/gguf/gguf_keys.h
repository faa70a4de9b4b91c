// Checks the keys "ARCH.*" of a GGUF file that do not determine the config. llama.cpp uses some of
// them, so ignoring such a key could change the model.
#pragma once

#include "frontends/sources/gguf/gguf_model.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Checks each key of the architecture against the descriptor (README.md, "Architectures"). Returns
// warnings gguf.unread_key for keys that llama.cpp ignores in favour of another value. Errors, all
// in one result: gguf.unknown_key; gguf.value (moec does not support the value of a key).
Result<Diagnostics> check_keys(const GgufModel& model);

}  // namespace moec
