// Plans the GGUF files of a model: keys, tensors with their types, and what their bytes are made
// of.
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
  WeightTable weights;  // that the payloads read
  std::vector<GgufPart> parts;
  std::vector<std::vector<GgufPayload>> payloads;  // by part, then by tensor
  std::vector<GgufFallback> fallbacks;
  Diagnostics notes;
};

// The last component of a source's path, without the ending of a file and the number of its part.
std::string gguf_base_name(const std::string& source);

// Reads headers and tokenizers, no payload. Types of tensors: norms, biases and all other vectors
// are f32, because llama.cpp ends at any other; routers as well, unless a rule names them. Matrices
// have the form of their group (ir/model/weight_policy.h), or the element type; where their rows
// are no whole blocks, f16. A table of embeddings that is the head, too, has the form of the head.
// "copy" keeps the blocks of a checkpoint in MXFP4. A GGUF source keeps its keys and the names of
// its tensors; with "copy" for all groups each tensor keeps its type and its bytes.
//
// Errors: those of open_source(); gguf.family (llama.cpp cannot compute the model:
// round_trip_check.h), weights.layers, weights.copy (nothing to copy), gguf.no_values (blocks that
// cannot be decoded are to be stored otherwise), those of the tokenizer (gguf_tokenizer.h) and of
// plan_gguf_parts().
Result<GgufPlan> plan_gguf_model(const GgufRequest& request);

}  // namespace moec
