// What a folder is that lacks a file of a checkpoint: what people give in its place, and what they
// meant.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

// Why there is no `path`, the config of a checkpoint. Codes: hf.no_folder, hf.hub_cache (the folder
// of a model in the hub's cache, or the cache itself), hf.adapter, hf.gguf_folder, hf.no_config.
Diagnostics explain_no_config(const std::string& path);

// Why the folder has neither weights nor their index. Codes: hf.dangling_link, hf.no_index (several
// files, and no list of their tensors), hf.no_weights.
Diagnostics explain_no_weights(const std::string& folder);

}  // namespace moec
