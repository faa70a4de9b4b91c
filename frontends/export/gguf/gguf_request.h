// The request for a model's GGUF files, and the deviations from it.
#pragma once

#include <optional>
#include <string>

#include "backends/formats/gguf/gguf_options.h"
#include "frontends/sources/family_options.h"
#include "ir/graph/block_type.h"
#include "ir/model/weight_policy.h"

namespace moec {

struct GgufRequest {
  std::string source;  // a checkpoint folder or a GGUF file; of a split model, the first file
  FamilyOptions family;
  DType dtype = DType::f16;  // type of tensors without a rule in `weights`
  WeightPolicy weights;
  GgufOptions options;
};

// A matrix whose row length is not a multiple of the requested type's block size.
struct GgufFallback {
  std::string tensor;
  BlockType wanted = BlockType::q8_0, stored = BlockType::f16;
};

}  // namespace moec
