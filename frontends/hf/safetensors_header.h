// The JSON header of a safetensors file, once its length is known to be sane.
#pragma once

#include "frontends/hf/safetensors.h"

namespace moec {

inline constexpr uint64_t kSafetensorsPrefix = 8;  // bytes before the JSON: its length
inline constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;

// `json` lies behind the prefix of a file of `file_bytes`, and ends inside it.
Result<SafetensorsHeader> read_header(std::string_view json, uint64_t file_bytes,
                                      const std::string& file);

}  // namespace moec
