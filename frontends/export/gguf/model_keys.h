// Writes the GGUF keys that describe a model, under the names of its llama.cpp architecture.
#pragma once

#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "frontends/sources/gguf/architecture.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// Returns general.architecture and the keys "ARCH.…": the sources of the descriptor's concepts,
// its further keys (`writes`), and those of the rotary embedding. Counts are u32, other numbers
// f32, flags bool. check_round_trip() checks that a reader gets the same model from them. Error
// gguf.family, with the concept or the scaling that no key can express.
Result<std::vector<GgufEntry>> model_keys(const ModelConfig& model,
                                          const GgufArchitecture& architecture);

// Returns the frequency divisors for the tensor rope_freqs.weight: for Llama 3's and proportional
// scaling, and for YaRN with a range that no key can express. Empty if the keys suffice, or if the
// architecture does not read this tensor.
std::vector<float> rope_divisors(const ModelConfig& model, const GgufArchitecture& architecture);

// Error gguf.family, "llama.cpp's architecture ARCH " + cause: GGUF cannot express the model.
tl::unexpected<Diagnostics> not_in_gguf(const GgufArchitecture& architecture, std::string cause);

}  // namespace moec
