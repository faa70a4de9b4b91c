// Converts the rotary keys of a GGUF file to the object `rope_parameters` of a config.
#pragma once

#include <cstdint>
#include <string>

#include "frontends/sources/gguf/gguf_model.h"

namespace moec {

inline constexpr uint64_t kMaxFactors = 4096;  // maximum number of factors per rotary embedding

// Returns `rope_parameters` as JSON. llama.cpp has the types none, linear, yarn and longrope. It
// reads a factor per frequency from the tensors rope_freqs, rope_factors_short and
// rope_factors_long. Llama 3's scaling is stored only as these factors. Errors: gguf.missing_key,
// gguf.key_type, gguf.rope, those of `read`.
//
// For YaRN's beta_fast, beta_slow and extrapolation factor, llama.cpp reads no keys but uses 32, 1
// and 1 (measured with the build in tests/peers/requirements.txt).
Result<std::string> rope_text(const GgufModel& model, const ReadFloats& read);

// Returns true if rope_text() reads the key "ARCH.name".
bool reads_rope_key(const GgufModel& model, std::string_view name);

}  // namespace moec
