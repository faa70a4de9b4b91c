#include "models/shards/width_slices.h"

#include <numeric>

#include "ir/base/at.h"

namespace moec {

std::vector<int64_t> balanced_parts(int64_t whole, int64_t parts) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(whole / parts + (i < whole % parts ? 1 : 0));
  return sizes;
}

std::vector<int64_t> slice_widths(int64_t width, int64_t slices) {
  constexpr int64_t kBlock = 64, kBlocksOfASlice = 8;
  // A divisor of 64 is a power of two, so each halved block still divides the width.
  int64_t block = std::gcd(width, kBlock);
  while (block > 1 && width / block < kBlocksOfASlice * slices) block /= 2;
  std::vector<int64_t> widths = balanced_parts(width / block, slices);
  for (int64_t& each : widths) each *= block;
  return widths;
}

int64_t mlp_width(const ModelConfig& model, ShardKind kind) {
  switch (kind) {
    case ShardKind::mlp:
      return model.mlp.ff;
    case ShardKind::shared:
      return model.moe.shared_ff;
    case ShardKind::moe:
    case ShardKind::experts:
      return model.moe.expert_ff;
    case ShardKind::attention:
    case ShardKind::router:
    case ShardKind::lm_head:
    case ShardKind::layers:
      break;
  }
  return 0;
}

WidthSlice slice_of(const ShardDecl& shard, int64_t width) {
  if (shard.slices == 1) return {0, width};
  // All slices compute the same widths, so together they cover the width exactly once.
  const std::vector<int64_t> widths = slice_widths(width, shard.slices);
  const auto begin = std::accumulate(widths.begin(), widths.begin() + shard.slice, int64_t{0});
  return {begin, at(widths, shard.slice)};
}

}  // namespace moec
