#include "backends/weights/views/scale_blocks.h"

#include <cstring>

#include "ir/base/invariant.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

// Copied with memcpy(), because `at` may be unaligned.
template <class Stored, class Change>
void change(std::byte* at, Change change_value) {
  Stored value{};
  std::memcpy(&value, at, sizeof(value));
  value = change_value(value);
  std::memcpy(at, &value, sizeof(value));
}

}  // namespace

bool can_scale(BlockType type) {
  return type == BlockType::f32 || type == BlockType::bf16 || block_format(type).scales.scale >= 0;
}

void scale_blocks(BlockType type, std::span<std::byte> blocks, float factor) {
  MOEC_CHECK(can_scale(type), "blocks of {} cannot be scaled", enum_name(type));
  const auto bytes = static_cast<size_t>(block_format(type).bytes);
  const ScalePlaces& places = block_format(type).scales;
  for (size_t block = 0; block + bytes <= blocks.size(); block += bytes) {
    std::byte* const at = &blocks[block];
    if (type == BlockType::f32) change<float>(at, [&](float value) { return value * factor; });
    if (type == BlockType::bf16)
      change<uint16_t>(at,
                       [&](uint16_t bits) { return bf16_from_f32(f32_from_bf16(bits) * factor); });
    // A value is linear in its block's scale and minimum. Multiplying both scales the value without
    // a change of codes.
    for (const int64_t place : {places.scale, places.minimum})
      if (place >= 0)
        change<uint16_t>(at + place,
                         [&](uint16_t bits) { return f16_from_f32(f32_from_f16(bits) * factor); });
  }
}

}  // namespace moec
