// Reads the keys of a GGUF file that have one value per layer (layer_keys.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontends/sources/gguf/gguf_model.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct GgufLayerFacts {
  std::vector<std::string> kinds;           // per layer
  std::map<std::string, int64_t> concepts;  // values of the concepts in the keys
};

// Returns the kinds of the first `count` layers. Errors: gguf.missing_key, gguf.key_type,
// gguf.layers (a list has too few values, or values of no kind), gguf.conflict.
Result<GgufLayerFacts> gguf_layer_facts(const GgufModel& model, int64_t count);

}  // namespace moec
