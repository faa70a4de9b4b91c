// Reads the attention of a config's layers: one kind for all of them, or kinds that differ in their
// heads or their rotation by the type of a layer.
#pragma once

#include <string>
#include <vector>

#include "frontends/sources/hf/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

struct AttentionContext {
  std::vector<std::string>
      layer_types;            // of read_layers(); none after a finding about their number
  int64_t max_positions = 0;  // of the config, whatever the longest context is
};

// Fills `model.attention`, `model.more_attention` and the attention of `model.layers`, of which the
// rest must have been read.
void read_attention(ConfigReader& reader, const AttentionContext& context, ModelConfig& model);

}  // namespace moec
