// config.json → ModelConfig, by the family's descriptor. Nothing in it is passed over: each key is
// read, has the value that the family requires, is known to be harmless, or is an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/hf/config_readings.h"
#include "ir/base/diagnostics.h"
#include "ir/plan/model_config.h"
#include "models/families/family.h"

namespace moec {

struct HfConfig {
  const Family* family = nullptr;  // a built-in one, or the user's
  ModelConfig model;               // names: the first template of each role, experts one by one
  Diagnostics warnings;
  std::vector<ConceptReading> concepts;  // in the order of all_concepts()
  std::vector<KeyReading> other_keys;
};

// A config under its descriptor, with what is wrong with it. With errors, the model may lack parts.
struct ExplainedConfig {
  HfConfig config;
  Diagnostics errors;
};

// `user_family` (may be null) is used instead of the built-in ones; it must outlive the result. All
// findings are collected. Errors: json.*, model.* (models/tensors/check_model.h), and
//   hf.config.not_object, hf.config.model_type, hf.family.unknown, hf.family.unsupported,
//   hf.family.mismatch
//   hf.config.missing_key        with the key's aliases
//   hf.config.unknown_key        with the nearest known key
//   hf.config.type, hf.config.range
//   hf.config.conflict           two aliases with different values
//   hf.config.unsupported_value  a known value that the family does not take
//   hf.config.unknown_activation, hf.config.unknown_score, hf.config.unknown_rope,
//   hf.config.unknown_layer_type, hf.config.unknown_choice, hf.config.unknown_storage
//                                each with the known ones
//   hf.config.layer_types, hf.config.window, hf.config.labels
// Warning: hf.config.rope_factor, when a YaRN factor is not the ratio of the lengths given beside
// it (the factor is used).
Result<HfConfig> read_config(std::string_view text, const std::string& file,
                             const Family* user_family = nullptr);

// The same, as far as it goes: fails only where it ends with json.*, hf.config.not_object,
// hf.config.model_type or hf.family.*.
Result<ExplainedConfig> explain_config(std::string_view text, const std::string& file,
                                       const Family* user_family = nullptr);

}  // namespace moec
