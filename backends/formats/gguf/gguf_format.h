// Constants of the GGUF format, shared by reader and writer.
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
inline constexpr uint32_t kGgufVersion = 3;  // of written files
inline constexpr uint32_t kGgufAlignment =
    32;  // of each tensor, unless kGgufAlignmentKey overrides it
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";

// Limits of the reader.
inline constexpr uint64_t kGgufMaxHeader = uint64_t{128} << 20;
inline constexpr uint64_t kGgufMaxString = uint64_t{64} << 20;
inline constexpr uint64_t kGgufMaxEntries = uint64_t{16} << 20;  // elements of an array
inline constexpr uint64_t kGgufMaxKeys = 4096;
inline constexpr uint64_t kGgufMaxKeyBytes = 65'535;
inline constexpr uint64_t kGgufMaxTensors = 65'536;
inline constexpr uint64_t kGgufNameEnd = 64;  // exclusive limit of tensor name lengths
inline constexpr uint32_t kGgufMaxSizes = 4;

// Value types; the enum values are the numbers in the file.
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

// Indexed by GgufType; 0 for types of variable length.
inline constexpr uint8_t kGgufTypeBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static_assert(std::size(kGgufTypeBytes) == enum_count<GgufType>);

// The GGUF type of a C++ type.
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
