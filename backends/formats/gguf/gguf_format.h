// Numbers of the GGUF format that its reader and its writer share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

#include "ir/base/enum_table.h"

namespace moec {

// The first bytes of a file.
inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufVersion = 3;     // that is written
inline constexpr uint32_t kGgufAlignment = 32;  // of each tensor, unless the key says otherwise
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";

// What a reader takes at most.
inline constexpr uint64_t kGgufMaxHeader = uint64_t{128} << 20;
inline constexpr uint64_t kGgufMaxString = uint64_t{64} << 20;
inline constexpr uint64_t kGgufMaxEntries = uint64_t{16} << 20;  // of an array
inline constexpr uint64_t kGgufMaxKeys = 4096;
inline constexpr uint64_t kGgufMaxKeyBytes = 65'535;
inline constexpr uint64_t kGgufMaxTensors = 65'536;
inline constexpr uint64_t kGgufNameEnd = 64;  // names of tensors are shorter
inline constexpr uint32_t kGgufMaxSizes = 4;

// Types of values, in the order of their numbers in the file.
enum class GgufType : uint8_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
constexpr auto enum_names(GgufType) {
  return name_table<GgufType>({"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string",
                               "array", "u64", "i64", "f64"});
}

// By GgufType; 0 where a value states its own length.
inline constexpr uint8_t kGgufTypeBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static_assert(std::size(kGgufTypeBytes) == enum_count<GgufType>);

// The type that a value of a C++ type has in a file.
template <class T>
constexpr GgufType gguf_type_of() {
  if constexpr (std::is_same_v<T, bool>) return GgufType::boolean;
  if constexpr (std::is_same_v<T, float>) return GgufType::f32;
  if constexpr (std::is_same_v<T, double>) return GgufType::f64;
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>)
    return GgufType::string;
  if constexpr (std::is_same_v<T, uint8_t>) return GgufType::u8;
  if constexpr (std::is_same_v<T, int8_t>) return GgufType::i8;
  if constexpr (std::is_same_v<T, uint16_t>) return GgufType::u16;
  if constexpr (std::is_same_v<T, int16_t>) return GgufType::i16;
  if constexpr (std::is_same_v<T, uint32_t>) return GgufType::u32;
  if constexpr (std::is_same_v<T, int32_t>) return GgufType::i32;
  if constexpr (std::is_same_v<T, uint64_t>) return GgufType::u64;
  if constexpr (std::is_same_v<T, int64_t>) return GgufType::i64;
  return GgufType::array;
}

constexpr uint64_t gguf_aligned(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace moec
