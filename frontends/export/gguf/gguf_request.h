// What a user asks of the GGUF files of a model, and what could not be done so.
#pragma once

#include <optional>
#include <string>

#include "backends/formats/gguf/gguf_options.h"
#include "frontends/sources/family_options.h"
#include "ir/graph/block_type.h"
#include "ir/model/weight_policy.h"

namespace moec {

struct GgufRequest {
  std::string source;  // a checkpoint folder, or a GGUF file, of a model in parts the first
  FamilyOptions family;
  DType dtype = DType::f16;  // of what no rule of `weights` stores otherwise
  WeightPolicy weights;
  GgufOptions options;
};

// A matrix whose rows are no whole blocks of the type that was asked for.
struct GgufFallback {
  std::string tensor;
  BlockType wanted = BlockType::q8_0, stored = BlockType::f16;
};

}  // namespace moec
