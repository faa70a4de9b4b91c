// Reads config.json into a ModelConfig, guided by the family's descriptor. No key is ignored
// silently: each key is read, has the required value, is listed as harmless, or is an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/config/config_readings.h"
#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"
#include "models/families/family.h"

namespace moec {

struct HfConfig {
  const Family* family = nullptr;  // built-in family, or the user's
  ModelConfig model;  // names: the first template of each role; experts stored individually
  Diagnostics warnings;
  std::vector<ConceptReading> concepts;  // in the order of all_concepts()
  std::vector<KeyReading> other_keys;
};

// A config that was read with its descriptor, and the errors. If there are errors, the model may be
// incomplete.
struct ExplainedConfig {
  HfConfig config;
  Diagnostics errors;
};

// Reads the text of a config.json. If not null, `user_family` replaces the built-in families and
// must outlive the result. Collects all findings. Errors: json.*, model.*
// (models/shards/check_model.h), and
//   hf.config.not_object, hf.config.model_type, hf.family.unknown, hf.family.unsupported,
//   hf.family.mismatch
//   hf.config.missing_key        with the aliases of the key
//   hf.config.unknown_key        with the most similar known key
//   hf.config.ignored_key        a key to ignore is read by the family, or absent
//   hf.config.type, hf.config.range
//   hf.config.conflict           two aliases with different values
//   hf.config.unsupported_value  a known value that the family does not support
//   hf.config.unknown_activation, hf.config.unknown_score, hf.config.unknown_rope,
//   hf.config.unknown_layer_type, hf.config.unknown_choice, hf.config.unknown_storage
//                                with the known names
//   hf.config.layer_types, hf.config.window, hf.config.labels
// Warnings:
//   hf.config.rope_factor        the YaRN factor, which is used, differs from the ratio of the
//                                context lengths
//   hf.config.rope_outside       a top-level rotary key that the family does not read
// Note:
//   hf.config.indexer            the context is limited to the number of keys of an indexer
Result<HfConfig> read_config(std::string_view text, const std::string& file,
                             const Family* user_family = nullptr);

// Fails with hf.family.plan_only if `why`, the reason why a family can only be planned
// (Family::plan_only), is not empty. `file` is the config.
Status refuse_plan_only(const std::string& family, const std::string& why, const std::string& file);

// Returns the model_type of a config. Errors: json.*, hf.config.not_object, hf.config.model_type.
Result<std::string> model_type_of(std::string_view text, const std::string& file);

// Like read_config(), but errors are part of the result. Fails only if the config cannot be read at
// all: json.*, hf.config.not_object, hf.config.model_type, hf.family.*.
Result<ExplainedConfig> explain_config(std::string_view text, const std::string& file,
                                       const Family* user_family = nullptr);

}  // namespace moec
