// Numbers in the stored parts of an encoded weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph/type.h"

namespace moec {

// Returns scales or table entries of this element type as f32.
std::vector<float> floats_of(DType dtype, std::span<const std::byte> bytes);

// Returns the first `count` codes or zeros of a packed part.
std::vector<uint8_t> unpacked(std::span<const std::byte> packed, int64_t bits, int64_t count);

// Packs codes or zeros into bytes; unused bits of the last byte are zero.
std::vector<std::byte> packed(std::span<const uint8_t> codes, int64_t bits);

}  // namespace moec
