// Cuts the intermediate width of an MLP or an expert into slices. A slice has some rows of gate and
// up and the same columns of down; the outputs of all slices add up to the whole output.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/model/plan.h"

namespace moec {

// Splits `whole` into `parts` sizes that differ by at most one, in descending order.
std::vector<int64_t> balanced_parts(int64_t whole, int64_t parts);

// The widths of `slices` <= `width` slices, in descending order. If `width` is a multiple of 64, so
// is every slice, because devices compute whole blocks of channels. The block is a smaller power of
// two if a slice would have fewer than 8 blocks. Widths differ by at most one block.
std::vector<int64_t> slice_widths(int64_t width, int64_t slices);

// The intermediate width of MLPs or experts in shards of this kind; 0 for kinds with neither.
int64_t mlp_width(const ModelConfig& model, ShardKind kind);

// The columns [begin, begin + size) of a shard's slice of `width`; all columns if it is not cut.
struct WidthSlice {
  int64_t begin = 0, size = 0;
  bool operator==(const WidthSlice&) const = default;
};
WidthSlice slice_of(const ShardDecl& shard, int64_t width);

// True if the shard has the first of the layer's experts that shards have: expert 0, unless it is
// masked and dropped. True for a shard without experts.
inline bool has_first_expert(const ShardDecl& shard, const BuildOptions& options) {
  if (shard.experts == 0) return true;
  const ExpertChoices& choices = options.experts;
  const auto mask = choices.mask.layers.find(shard.layer);
  const bool all = !choices.drop_masked || mask == choices.mask.layers.end();
  return shard.first_expert == (all ? 0 : mask->second.front());
}

// True if the shard is the first of its layer's feed-forward part to add to the residual stream.
inline bool is_first_part(const ShardDecl& shard, const BuildOptions& options) {
  if (is_expert_group(shard.kind) && options.slices.shared > 0) return false;
  return has_first_expert(shard, options) && shard.slice == 0;
}

}  // namespace moec
