// Diagnoses folders that lack files of a checkpoint: recognizes common mistakes and suggests
// remedies.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

// Explains why the config `path` is missing. Codes: hf.no_folder, hf.hub_cache (the folder is a
// model's folder in the hub cache, or the cache itself), hf.adapter, hf.gguf_folder, hf.no_config.
Diagnostics explain_no_config(const std::string& path);

// Explains a folder with neither weights nor an index. Codes: hf.dangling_link, hf.no_index
// (several weight files without an index), hf.no_weights.
Diagnostics explain_no_weights(const std::string& folder);

}  // namespace moec
