// Reads the rotary embeddings of a config: `rope_parameters` of transformers 5, or `rope_theta` and
// `rope_scaling` of version 4.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "frontends/sources/config/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// A layer type and head size that need a rotary embedding. `theta` replaces the config's base; 0:
// it does not.
struct RopeUse {
  std::string layer_type;
  int64_t head_dim = 0;
  double theta = 0;
  bool operator==(const RopeUse&) const = default;
};

// Returns one rotary embedding per entry of `uses`. Adds findings to the reader:
// hf.config.unknown_rope, hf.config.unknown_key (with the object's name), hf.config.missing_key,
// hf.config.type, hf.config.conflict, hf.config.unsupported_value.
std::vector<RopeConfig> read_ropes(ConfigReader& reader, std::span<const RopeUse> uses,
                                   int64_t max_positions);

}  // namespace moec
