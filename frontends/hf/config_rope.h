// The rotary embedding of a config: `rope_parameters` as transformers 5 writes it, or `rope_theta`
// and `rope_scaling` as version 4 does.
#pragma once

#include "frontends/hf/config_reader.h"
#include "ir/plan/model_config.h"

namespace moec {

// Findings go to the reader: hf.config.unknown_rope, hf.config.unknown_key (with the object's
// name), hf.config.missing_key, hf.config.type, hf.config.conflict, hf.config.unsupported_value.
RopeConfig read_rope(ConfigReader& reader, int64_t head_dim, int64_t max_positions);

}  // namespace moec
