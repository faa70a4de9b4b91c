// Serializes little-endian numbers and length-prefixed strings, as in GGUF headers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace moec {

template <class T>
void append_number(std::string& bytes, T value) {
  static_assert(std::is_arithmetic_v<T>);
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

inline void append_string(std::string& bytes, std::string_view text) {
  append_number(bytes, static_cast<uint64_t>(text.size()));
  bytes += text;
}

}  // namespace moec
