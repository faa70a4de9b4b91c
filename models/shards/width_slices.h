// How the intermediate width of an MLP or an expert is cut into slices. A slice is some rows of
// gate and up and the same columns of down; the outputs of all slices add up to that of the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/model/plan.h"

namespace moec {

// Splits `whole` into `parts` sizes that differ by at most one, in descending order.
std::vector<int64_t> balanced_parts(int64_t whole, int64_t parts);

// The widths of `slices` slices, at most `width` of them, in descending order. They are multiples
// of 64 where the width is one, because devices compute whole blocks of channels, or of a smaller
// power of two where a slice would have fewer than 8 blocks. They differ by at most one block.
std::vector<int64_t> slice_widths(int64_t width, int64_t slices);

// The intermediate width of what shards of this kind hold; 0 where they hold neither MLP nor
// experts.
int64_t mlp_width(const ModelConfig& model, ShardKind kind);

// The columns [begin, begin + size) of a shard's slice of `width`; all of them where it is not cut.
struct WidthSlice {
  int64_t begin = 0, size = 0;
  bool operator==(const WidthSlice&) const = default;
};
WidthSlice slice_of(const ShardDecl& shard, int64_t width);

// Whether the shard is the first in its layer to add to the residual stream after the attention.
inline bool is_first_part(const ShardDecl& shard, const BuildOptions& options) {
  if (is_expert_group(shard.kind) && options.slices.shared > 0) return false;
  return shard.first_expert == 0 && shard.slice == 0;
}

}  // namespace moec
