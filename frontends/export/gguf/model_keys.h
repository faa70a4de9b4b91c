// The keys of a GGUF file that say what a model is, as its architecture names them.
#pragma once

#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "frontends/sources/gguf/architecture.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// general.architecture and the keys "ARCH.…": those that the concepts of the descriptor come from,
// those that it writes besides, and those of the rotation. Counts are u32, other numbers f32, flags
// bool. Whether a reader gets the same model from them is found out by check_round_trip().
// Errors, for what no key can say: gguf.family with the concept or the rotation that is in the way.
Result<std::vector<GgufEntry>> model_keys(const ModelConfig& model,
                                          const GgufArchitecture& architecture);

// The divisors of the rotation's frequencies for the tensor rope_freqs.weight: of Llama 3's
// scaling, and of YaRN with a range that no key says. Empty if the keys say it all, and if the
// architecture reads no such tensor.
std::vector<float> rope_divisors(const RopeConfig& rope, const GgufArchitecture& architecture);

// Error gguf.family: "llama.cpp's ARCH …"; the model cannot be said in GGUF.
tl::unexpected<Diagnostics> not_in_gguf(const GgufArchitecture& architecture, std::string cause);

}  // namespace moec
