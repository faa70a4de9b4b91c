// Reads one rotary embedding of a config.
#pragma once

#include <string_view>

#include "frontends/sources/config/config_reader.h"
#include "ir/model/model_config.h"

namespace moec {

// The scale of a query temperature in the object of a rotation (TemperedLayers::all).
inline constexpr std::string_view kTemperatureScale = "llama_4_scaling_beta";

// Rope type of a rotary embedding with a listed divisor per frequency, as in GGUF files. Its keys
// are those of longrope in Phi's config. Every family accepts this type.
inline constexpr std::string_view kFrequencyDivisors = "divisors";

// The object that describes a rotary embedding.
struct RopeObject {
  const JsonValue* json = nullptr;  // null: only the top-level keys describe the embedding
  std::string_view name;            // "rope_parameters" or "rope_scaling"
  int64_t max_positions = 0;        // of the model
  bool by_default = false;          // the object is the descriptor's default
  bool by_layer_type = false;       // the family has an embedding per layer type
};

// Adds the findings of read_ropes() to the reader.
RopeConfig read_rope(const RopeObject& object, int64_t head_dim, ConfigReader& reader);

}  // namespace moec
