// Plans the GGUF files of a model: keys, tensors with their types, and the sources of their bytes.
#pragma once

#include <string>
#include <vector>

#include "backends/formats/gguf/emit_gguf.h"
#include "frontends/export/gguf/gguf_request.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"

namespace moec {

struct GgufPlan {
  ModelConfig model;
  WeightTable weights;  // read by the payloads
  std::vector<GgufPart> parts;
  std::vector<std::vector<GgufPayload>> payloads;  // by part, then by tensor
  std::vector<GgufFallback> fallbacks;
  Diagnostics notes;
};

// Returns the last component of a source's path. For a GGUF file, omits the extension, the part
// number and the tensor type.
std::string gguf_base_name(const std::string& source);

// Plans without reading payloads: reads only headers and tokenizers. Types of tensors:
// - Norms, biases and all other vectors are f32, because llama.cpp aborts on any other type.
// - Routers are f32, unless a rule names them.
// - Matrices have the form of their group (ir/model/weight_policy.h), else the element type. If a
//   row is not a multiple of the block size, they are f16.
// - An embedding that is also the head has the form of the head.
// - "copy" preserves the blocks of an MXFP4 checkpoint.
// For a GGUF source, preserves the keys and tensor names; with "copy" for all groups, also the type
// and the bytes of each tensor.
//
// Errors: those of open_source(); gguf.family (llama.cpp cannot compute the model:
// round_trip_check.h), weights.layers, weights.copy (nothing to copy), gguf.no_values (blocks that
// moec cannot decode need another type), those of the tokenizer (gguf_tokenizer.h) and of
// plan_gguf_parts().
Result<GgufPlan> plan_gguf_model(const GgufRequest& request);

}  // namespace moec
