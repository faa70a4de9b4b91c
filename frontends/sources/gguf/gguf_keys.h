// The keys "ARCH.*" of a GGUF file that its model does not come from. llama.cpp follows some of
// them, so that a key that is passed over may be another model.
#pragma once

#include "frontends/sources/gguf/gguf_model.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Holds each key of the architecture against its descriptor (README.md, "Architectures").
// Errors, all at once: gguf.unknown_key; gguf.value if a key asks for what moec does not compute.
// Warning gguf.unread_key: llama.cpp does not read the key and computes with another value.
Result<Diagnostics> check_keys(const GgufModel& model);

}  // namespace moec
