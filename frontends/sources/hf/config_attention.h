// Reads the attention of a config's layers: one kind for all layers, or several kinds with
// different heads or rotary embeddings.
#pragma once

#include <string>
#include <vector>

#include "frontends/sources/config/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

struct AttentionContext {
  std::vector<std::string> layer_types;  // from read_layers(); empty after a finding about types
  int64_t max_positions = 0;             // as in the config, even if the context is shorter
};

// Sets `model.attention`, `model.more_attention` and the attention of `model.layers`. The other
// fields of `model.layers` must have been read.
void read_attention(ConfigReader& reader, const AttentionContext& context, ModelConfig& model);

}  // namespace moec
