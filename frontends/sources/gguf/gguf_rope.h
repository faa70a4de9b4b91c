// The rotation that the keys of a GGUF file describe, as the object `rope_parameters` of a config.
#pragma once

#include <cstdint>
#include <string>

#include "frontends/sources/gguf/gguf_model.h"

namespace moec {

inline constexpr uint64_t kMostFactors = 4096;  // of a rotation

// llama.cpp knows the types none, linear, yarn and longrope, and takes factors of each frequency
// from the tensors rope_freqs, rope_factors_short and rope_factors_long (Llama 3's scaling is
// stored as such factors only). Errors: gguf.missing_key, gguf.key_type, gguf.rope, those of
// `read`.
//
// llama.cpp reads no keys for YaRN's beta_fast, beta_slow and extrapolation factor: it computes
// with 32, 1 and 1 (measured with the build that tests/peers/requirements.txt names).
Result<std::string> rope_text(const GgufModel& model, const ReadFloats& read);

// Whether rope_text() reads this key, without "ARCH.".
bool reads_rope_key(const GgufModel& model, std::string_view name);

}  // namespace moec
