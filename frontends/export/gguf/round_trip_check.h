// Checks that a GGUF file describes the model for which it is written. Reads its header back with
// frontends/sources/gguf and compares the resulting model with the intended one.
#pragma once

#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "frontends/export/gguf/model_tensors.h"
#include "frontends/sources/gguf/architecture.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

// Error gguf.family: the header describes another model, or cannot be read as a model. The message
// names the first difference with both values. Numbers may differ by rounding to f32. `entries` are
// the result of model_keys().
Status check_round_trip(const ModelConfig& model, const GgufArchitecture& architecture,
                        const std::vector<GgufEntry>& entries,
                        const std::vector<ModelTensor>& tensors);

}  // namespace moec
