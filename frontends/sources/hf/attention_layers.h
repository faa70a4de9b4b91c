// Which layers of a family with another mixer have attention, by its rule or by the config's lists
// of numbers of layers.
#pragma once

#include <vector>

#include "frontends/sources/hf/config_reader.h"

namespace moec {

// For each layer, whether it has attention: by the lists of the numbers of layers with attention
// and of those with the other mixer, which count from 1 and must name each layer once
// (hf.config.layer_types), else by the descriptor's rule.
std::vector<bool> attention_layers(ConfigReader& reader, size_t layers);

// Adds a finding (hf.config.conflict) where the config has these lists, by which `attends` is what
// attention_layers() says, as well as types of layers, by which it is `now`, and they differ.
void check_listed_mixers(ConfigReader& reader, const std::vector<bool>& attends,
                         const std::vector<bool>& now);

}  // namespace moec
