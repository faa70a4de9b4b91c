// Proves that a GGUF file says the model that it is written for: its header is read back, as
// frontends/sources/gguf reads it, and the model that it gives is compared with the one that was to
// be said.
#pragma once

#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "frontends/export/gguf/model_tensors.h"
#include "frontends/sources/gguf/architecture.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// Error gguf.family: the header gives another model, or none; names what differs, and both values.
// Numbers may differ by the rounding to f32. `entries` are those of model_keys().
Status check_round_trip(const ModelConfig& model, const GgufArchitecture& architecture,
                        const std::vector<GgufEntry>& entries,
                        const std::vector<ModelTensor>& tensors);

}  // namespace moec
