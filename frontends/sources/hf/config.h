// Reads config.json into a ModelConfig, guided by the family's descriptor. No key is ignored
// silently: each is read, has the value that the family requires, is listed as harmless, or is an
// error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/hf/config_readings.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"
#include "models/families/family.h"

namespace moec {

struct HfConfig {
  const Family* family = nullptr;  // a built-in one, or the user's
  ModelConfig model;  // names: the first template of each role; experts stored one by one
  Diagnostics warnings;
  std::vector<ConceptReading> concepts;  // in the order of all_concepts()
  std::vector<KeyReading> other_keys;
};

// A config read under its descriptor, with its errors. With errors, the model may be incomplete.
struct ExplainedConfig {
  HfConfig config;
  Diagnostics errors;
};

// Reads the text of a config.json. `user_family` (may be null) replaces the built-in families; it
// must outlive the result. All findings are collected. Errors: json.*, model.*
// (models/shards/check_model.h), and
//   hf.config.not_object, hf.config.model_type, hf.family.unknown, hf.family.unsupported,
//   hf.family.mismatch
//   hf.config.missing_key        with the key's aliases
//   hf.config.unknown_key        with the nearest known key
//   hf.config.ignored_key        a key to ignore that the family reads, or that is absent
//   hf.config.type, hf.config.range
//   hf.config.conflict           two aliases with different values
//   hf.config.unsupported_value  a known value that the family does not support
//   hf.config.unknown_activation, hf.config.unknown_score, hf.config.unknown_rope,
//   hf.config.unknown_layer_type, hf.config.unknown_choice, hf.config.unknown_storage
//                                each lists the known names
//   hf.config.layer_types, hf.config.window, hf.config.labels
// Warnings:
//   hf.config.rope_factor        a YaRN factor differs from the ratio of the context lengths beside
//                                it (the factor is used)
//   hf.config.rope_outside       a top-level key of the rotation that the family does not read
// Note:
//   hf.config.indexer            the longest context is what an indexer chooses of a longer one
Result<HfConfig> read_config(std::string_view text, const std::string& file,
                             const Family* user_family = nullptr);

// The model_type of a config. Errors: json.*, hf.config.not_object, hf.config.model_type.
Result<std::string> model_type_of(std::string_view text, const std::string& file);

// The same as read_config(), but errors are part of the result. Fails only if nothing can be
// explained: json.*,
// hf.config.not_object, hf.config.model_type, hf.family.*.
Result<ExplainedConfig> explain_config(std::string_view text, const std::string& file,
                                       const Family* user_family = nullptr);

}  // namespace moec
