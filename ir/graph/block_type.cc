#include "ir/graph/block_type.h"

#include <utility>

namespace moec {
namespace {

// GGUF ids of types that llama.cpp removed. Messages about such files give the name.
constexpr std::pair<uint32_t, std::string_view> kRemovedBlockTypes[] = {
    {4, "q4_2"},      {5, "q4_3"},        {31, "q4_0_4_4"},   {32, "q4_0_4_8"},
    {33, "q4_0_8_8"}, {36, "iq4_nl_4_4"}, {37, "iq4_nl_4_8"}, {38, "iq4_nl_8_8"},
};

}  // namespace

std::optional<BlockType> find_block_type(uint32_t gguf_id) {
  for (size_t i = 0; i < kBlockFormats.size(); ++i)
    if (kBlockFormats[i].gguf_id == gguf_id) return static_cast<BlockType>(i);
  return std::nullopt;
}

std::optional<std::string_view> removed_block_type(uint32_t gguf_id) {
  for (const auto& [id, name] : kRemovedBlockTypes)
    if (id == gguf_id) return name;
  return std::nullopt;
}

std::optional<DType> plain_dtype(BlockType type) {
  const BlockFormat& format = block_format(type);
  return format.values == BlockValues::plain ? parse_dtype(format.name) : std::nullopt;
}

int64_t block_row_bytes(BlockType type, int64_t elements) {
  const BlockFormat& format = block_format(type);
  return elements / format.elements * format.bytes;
}

}  // namespace moec
