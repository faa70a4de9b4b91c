// Reads what a config says of each layer: whether it has experts, rotates, and which keys it sees.
#pragma once

#include <string>
#include <vector>

#include "frontends/sources/hf/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// Fills `model.layers` but for their attention. `model.max_positions` and `model.moe` must have
// been read. Returns the name of each layer's type, as `layer_types` has it or would have it.
std::vector<std::string> read_layers(ConfigReader& reader, ModelConfig& model);

// Whether an indexer chooses the keys in any layer of a family that has the concept `chosen_keys`.
bool has_indexed_layers(ConfigReader& reader);

}  // namespace moec
