// Keys with typed values of a GGUF header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/formats/gguf/gguf_format.h"
#include "ir/base/diagnostics.h"

namespace moec {

// A value as raw bytes, for copying from another file: the bytes after its type, or the elements of
// an array without their type and count.
struct GgufBytesValue {
  GgufType type = GgufType::u8;  // of the value, or of an array's elements
  bool is_array = false;
  uint64_t count = 1;  // elements of an array
  std::string bytes;
  bool operator==(const GgufBytesValue&) const = default;
};

// The C++ type determines the type in the file; llama.cpp, for example, requires u32 for counts.
using GgufItem = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                              std::string, uint64_t, int64_t, double, std::vector<uint8_t>,
                              std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>,
                              std::vector<std::string>, GgufBytesValue>;

struct GgufEntry {
  std::string key;
  GgufItem value;
  bool operator==(const GgufEntry&) const = default;
};

// Returns the entry with this key, or null.
const GgufEntry* find_entry(const std::vector<GgufEntry>& entries, std::string_view key);

// Serializes an entry: key, type and value. Errors, at the limits that the reader enforces:
// gguf.key, gguf.array_too_long, gguf.string_too_long.
Result<std::string> entry_bytes(const GgufEntry& entry);

}  // namespace moec
