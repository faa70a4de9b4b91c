#include "backends/formats/gguf/block_name.h"

#include <fmt/format.h>

#include "ir/base/parse_number.h"

namespace moec {
namespace {

// The prefix of layer tensors in llama.cpp: "blk.3.ffn_up.weight".
constexpr std::string_view kBlock = "blk.";

}  // namespace

std::string block_name(int64_t layer, std::string_view name) {
  return fmt::format("{}{}.{}", kBlock, layer, name);
}

// BlockName::name is a view of `tensor`.
std::optional<BlockName> parse_block_name(std::string_view tensor) {
  if (!tensor.starts_with(kBlock)) return std::nullopt;
  tensor.remove_prefix(kBlock.size());
  const auto layer = take_number<int64_t>(tensor);
  if (!layer || *layer < 0 || !tensor.starts_with('.')) return std::nullopt;
  return BlockName{*layer, tensor.substr(1)};
}

}  // namespace moec
