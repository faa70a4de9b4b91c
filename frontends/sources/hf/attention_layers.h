// Determines which layers have attention in families with another mixer, by the family's rule or
// the config's lists of layer numbers.
#pragma once

#include <vector>

#include "frontends/sources/config/config_reader.h"

namespace moec {

// Returns one flag per layer: true if the layer has attention. Uses the config's two lists of layer
// numbers, one for attention and one for the other mixer. Numbers start at 1, and each layer must
// be listed exactly once (hf.config.layer_types). Without lists, uses the descriptor's rule.
std::vector<bool> attention_layers(ConfigReader& reader, size_t layers);

// Adds the finding hf.config.conflict if the config has both these lists and layer types, and they
// disagree. `attends` is the result of attention_layers(); `now` is derived from the layer types.
void check_listed_mixers(ConfigReader& reader, const std::vector<bool>& attends,
                         const std::vector<bool>& now);

}  // namespace moec
