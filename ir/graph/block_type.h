// The storage types of GGUF tensors: plain elements, or blocks of elements that share scales. Each
// row of a tensor, along its innermost axis, consists of whole blocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/graph/type.h"

namespace moec {

enum class BlockType : uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  i16,
  i32,
  i64,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  nvfp4,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  tq1_0,
  tq2_0,
  q1_0,
  q2_0
};

// Level of support for the values of a type.
//   plain    elements are not packed; described by the DType of the same name, if there is one
//   decoded  unblock() decodes the values
//   opaque   only sizes are known: blocks can be copied but not decoded
enum class BlockValues : uint8_t { plain, decoded, opaque };

// The integers from which a type's values are decoded: value = scale × code or, with zeros, value =
// scale × (code + 2^(bits − 1) − zero). Zeros are not integers.
struct IntegerCodes {
  int64_t bits = 4;       // 4 or 8; every code fits in two's complement
  int64_t elements = 32;  // per scale
  bool zeros = false;
  bool operator==(const IntegerCodes&) const = default;
};

// Byte offsets of a block's f16 scale and, if it has one, its f16 minimum.
struct ScalePlaces {
  int64_t scale = -1, minimum = -1;  // -1: none
};

struct BlockFormat {
  std::string_view name;
  uint32_t gguf_id = 0;
  int64_t elements = 1;  // per block
  int64_t bytes = 1;     // per block
  BlockValues values = BlockValues::plain;
  // Absent for types whose values are not evenly spaced, and for types with both 8 bits and zeros.
  // Codes of 2, 3, 5 and 6 bits are widened to 4 or 8 bits, the widths of AffineEncoding.
  std::optional<IntegerCodes> codes = std::nullopt;
  ScalePlaces scales = {};
};

inline constexpr auto kBlockFormats = enum_table<BlockType, BlockFormat>({
    {"f32", 0, 1, 4, BlockValues::plain},
    {"f16", 1, 1, 2, BlockValues::plain, std::nullopt, ScalePlaces{0}},
    {"bf16", 30, 1, 2, BlockValues::plain},
    {"f64", 28, 1, 8, BlockValues::plain},
    {"i8", 24, 1, 1, BlockValues::plain},
    {"i16", 25, 1, 2, BlockValues::plain},
    {"i32", 26, 1, 4, BlockValues::plain},
    {"i64", 27, 1, 8, BlockValues::plain},
    {"q4_0", 2, 32, 18, BlockValues::decoded, IntegerCodes{4, 32}, ScalePlaces{0}},
    {"q4_1", 3, 32, 20, BlockValues::decoded, IntegerCodes{4, 32, true}, ScalePlaces{0, 2}},
    {"q5_0", 6, 32, 22, BlockValues::decoded, IntegerCodes{8, 32}, ScalePlaces{0}},
    {"q5_1", 7, 32, 24, BlockValues::decoded, std::nullopt, ScalePlaces{0, 2}},
    {"q8_0", 8, 32, 34, BlockValues::decoded, IntegerCodes{8, 32}, ScalePlaces{0}},
    {"q2_k", 10, 256, 84, BlockValues::decoded, IntegerCodes{4, 16, true}, ScalePlaces{80, 82}},
    {"q3_k", 11, 256, 110, BlockValues::decoded, IntegerCodes{4, 16}, ScalePlaces{108}},
    {"q4_k", 12, 256, 144, BlockValues::decoded, IntegerCodes{4, 32, true}, ScalePlaces{0, 2}},
    {"q5_k", 13, 256, 176, BlockValues::decoded, std::nullopt, ScalePlaces{0, 2}},
    {"q6_k", 14, 256, 210, BlockValues::decoded, IntegerCodes{8, 16}, ScalePlaces{208}},
    {"iq4_nl", 20, 32, 18, BlockValues::decoded, std::nullopt, ScalePlaces{0}},
    {"iq4_xs", 23, 256, 136, BlockValues::decoded, std::nullopt, ScalePlaces{0}},
    {"mxfp4", 39, 32, 17, BlockValues::decoded},
    {"nvfp4", 40, 64, 36, BlockValues::decoded},
    {"iq1_s", 19, 256, 50, BlockValues::decoded, std::nullopt, ScalePlaces{0}},
    {"iq1_m", 29, 256, 56, BlockValues::decoded},
    {"iq2_xxs", 16, 256, 66, BlockValues::decoded, std::nullopt, ScalePlaces{0}},
    {"iq2_xs", 17, 256, 74, BlockValues::decoded, std::nullopt, ScalePlaces{0}},
    {"iq2_s", 22, 256, 82, BlockValues::decoded, std::nullopt, ScalePlaces{0}},
    {"iq3_xxs", 18, 256, 98, BlockValues::decoded, std::nullopt, ScalePlaces{0}},
    {"iq3_s", 21, 256, 110, BlockValues::decoded, std::nullopt, ScalePlaces{0}},
    {"tq1_0", 34, 256, 54, BlockValues::decoded, IntegerCodes{4, 256}, ScalePlaces{52}},
    {"tq2_0", 35, 256, 66, BlockValues::decoded, IntegerCodes{4, 256}, ScalePlaces{64}},
    {"q1_0", 41, 128, 18, BlockValues::opaque},
    {"q2_0", 42, 64, 18, BlockValues::opaque},
});

constexpr const BlockFormat& block_format(BlockType type) { return at(kBlockFormats, type); }

constexpr auto enum_names(BlockType) { return row_names(kBlockFormats); }

// Returns the type with the number `gguf_id` in GGUF files; empty for unknown numbers.
std::optional<BlockType> find_block_type(uint32_t gguf_id);
// Returns the name of the removed type that had the number `gguf_id`, or empty. Current readers do
// not know the layouts of removed types.
std::optional<std::string_view> removed_block_type(uint32_t gguf_id);

// Returns the element type of a plain type; empty for blocks, f64, i8 and i16.
std::optional<DType> plain_dtype(BlockType type);

// Returns the bytes of a row of `elements` elements, which must form whole blocks.
int64_t block_row_bytes(BlockType type, int64_t elements);

}  // namespace moec
