// Keys with typed values, as the header of a GGUF file has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/formats/gguf/gguf_format.h"
#include "ir/base/diagnostics.h"

namespace moec {

// A value as the bytes that follow its type in a file: of an array its elements, without their type
// and number. For values that are carried over from another file.
struct GgufBytesValue {
  GgufType type = GgufType::u8;  // of the value, of each element in an array
  bool is_array = false;
  uint64_t count = 1;  // elements of an array
  std::string bytes;
  bool operator==(const GgufBytesValue&) const = default;
};

// The C++ type is the value's type in the file: llama.cpp reads counts as u32 and refuses any
// other.
using GgufItem = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                              std::string, uint64_t, int64_t, double, std::vector<uint8_t>,
                              std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>,
                              std::vector<std::string>, GgufBytesValue>;

struct GgufEntry {
  std::string key;
  GgufItem value;
  bool operator==(const GgufEntry&) const = default;
};

// Null where there is no such key.
const GgufEntry* find_entry(const std::vector<GgufEntry>& entries, std::string_view key);

// The bytes of an entry in a file: key, type and value. Errors: gguf.key, gguf.array_too_long,
// gguf.string_too_long, those of the reader for the same reasons.
Result<std::string> entry_bytes(const GgufEntry& entry);

}  // namespace moec
