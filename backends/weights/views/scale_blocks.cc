#include "backends/weights/views/scale_blocks.h"

#include <cstring>

#include "ir/base/invariant.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

// Byte offsets of a block's f16 scale and, if it has one, its f16 minimum.
std::span<const size_t> scale_places(BlockType type) {
  static constexpr size_t kFirst[] = {0}, kFirstTwo[] = {0, 2}, kQ2K[] = {80, 82}, kQ3K[] = {108},
                          kQ6K[] = {208};
  switch (type) {
    case BlockType::f16:
    case BlockType::q4_0:
    case BlockType::q5_0:
    case BlockType::q8_0:
    case BlockType::iq4_nl:
    case BlockType::iq4_xs:
      return kFirst;
    case BlockType::q4_1:
    case BlockType::q5_1:
    case BlockType::q4_k:
    case BlockType::q5_k:
      return kFirstTwo;
    case BlockType::q2_k:
      return kQ2K;
    case BlockType::q3_k:
      return kQ3K;
    case BlockType::q6_k:
      return kQ6K;
    default:
      return {};
  }
}

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
  return type == BlockType::f32 || type == BlockType::bf16 || !scale_places(type).empty();
}

void scale_blocks(BlockType type, std::span<std::byte> blocks, float factor) {
  MOEC_CHECK(can_scale(type), "blocks of {} cannot be scaled", enum_name(type));
  const auto bytes = static_cast<size_t>(block_format(type).bytes);
  const std::span<const size_t> places = scale_places(type);
  for (size_t block = 0; block + bytes <= blocks.size(); block += bytes) {
    std::byte* const at = &blocks[block];
    if (type == BlockType::f32) change<float>(at, [&](float value) { return value * factor; });
    if (type == BlockType::bf16)
      change<uint16_t>(at,
                       [&](uint16_t bits) { return bf16_from_f32(f32_from_bf16(bits) * factor); });
    // A value is linear in its block's scale and minimum. Multiplying both scales the value without
    // a change of codes.
    for (const size_t place : places)
      change<uint16_t>(at + place,
                       [&](uint16_t bits) { return f16_from_f32(f32_from_f16(bits) * factor); });
  }
}

}  // namespace moec
