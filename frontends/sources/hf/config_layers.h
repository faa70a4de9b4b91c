// Reads the layers of a config: experts, rotary embeddings and attention spans.
#pragma once

#include <string>
#include <vector>

#include "frontends/sources/config/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// Sets `model.layers` except for their attention. `model.max_positions` and `model.moe` must have
// been read. Returns the type name of each layer, in the vocabulary of `layer_types`.
std::vector<std::string> read_layers(ConfigReader& reader, ModelConfig& model);

// Returns true if an indexer selects the keys in any layer. The family must have the concept
// `chosen_keys`.
bool has_indexed_layers(ConfigReader& reader);

}  // namespace moec
