// The rotary embedding of a config: `rope_parameters` as transformers 5 writes it, or `rope_theta`
// and `rope_scaling` as version 4 does.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/hf/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// The rope type of a rotation whose frequencies are divided by listed factors, as GGUF files have
// them: with the keys of longrope in Phi's config, and taken in every family.
inline constexpr std::string_view kFrequencyDivisors = "divisors";

// The rotation of layers of one type, whose heads have so many dims.
struct RopeUse {
  std::string layer_type;
  int64_t head_dim = 0;
  bool operator==(const RopeUse&) const = default;
};

// One rotation for each use. Findings go to the reader: hf.config.unknown_rope,
// hf.config.unknown_key (with the object's name), hf.config.missing_key, hf.config.type,
// hf.config.conflict, hf.config.unsupported_value.
std::vector<RopeConfig> read_ropes(ConfigReader& reader, std::span<const RopeUse> uses,
                                   int64_t max_positions);

}  // namespace moec
