// Edits the config.json of a checkpoint; keys that moec does not know are kept.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontends/sources/hf/config.h"
#include "ir/base/diagnostics.h"

namespace moec {

// Converts a config to JSON and back. Python's bare word Infinity becomes the string "inf" in JSON.
nlohmann::ordered_json config_json(const std::string& text);
std::string config_text(const nlohmann::ordered_json& config);

// The last component of a folder's path: records of a source are the same on every machine.
std::string last_component(const std::string& path);

// Sets every key of `json`, the config of the text model, from which the family reads this number.
// If the config has none of these keys, adds the first one. Error `code`: a key is nested in an
// object, or its value is not a number.
Status set_number(const HfConfig& config, const std::string& concept_name, int64_t value,
                  const std::string& code, nlohmann::ordered_json& json);

}  // namespace moec
