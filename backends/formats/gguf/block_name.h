// Names of the tensors of a layer in GGUF files: "blk.5.attn_q.weight".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moec {

struct BlockName {
  int64_t layer = 0;
  std::string_view name;  // after "blk.N."
};

// "blk.N.NAME".
std::string block_name(int64_t layer, std::string_view name);

// Parses "blk.N.NAME". Returns nullopt for tensors outside the layers.
std::optional<BlockName> parse_block_name(std::string_view tensor);

}  // namespace moec
