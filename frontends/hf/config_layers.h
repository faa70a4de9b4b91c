// Reads what a config says of each layer: whether it has experts, rotates, and which keys it sees.
#pragma once

#include "frontends/hf/config_reader.h"
#include "ir/plan/model_config.h"

namespace moec {

// Fills `model.layers`. `model.max_positions` and `model.moe` must have been read.
void read_layers(ConfigReader& reader, ModelConfig& model);

}  // namespace moec
