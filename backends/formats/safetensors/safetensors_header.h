// Parses the JSON of a safetensors header. safetensors.cc has checked its length.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/regular_file.h"
#include "ir/graph/type.h"

namespace moec {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;   // as written: "BF16"
  Dims shape;          // may be empty or contain 0
  uint64_t begin = 0;  // bytes from the start of the file
  uint64_t end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  uint64_t file_bytes = 0;
  std::optional<FileIdentity> identity;   // of the file; empty for a header in memory
  std::vector<SafetensorsEntry> tensors;  // sorted by begin, end, name
  std::map<std::string, std::string, std::less<>> metadata;
};

inline constexpr uint64_t kSafetensorsPrefix = 8;  // bytes before the JSON: its length
inline constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;

// `json` is the text after the prefix; `file_bytes` is the size of the file. Errors: safetensors.*,
// json.*.
Result<SafetensorsHeader> read_header(std::string_view json, uint64_t file_bytes,
                                      const std::string& file);

}  // namespace moec
