// A node whose elements have parameters block by block: a scale, an offset, a table. This is what
// such nodes share: how blocks move when the node is sliced, permuted or reshaped, and how the
// parameters of a region are read.
#pragma once

#include <optional>
#include <vector>

#include "backends/weights/views/view_node.h"

namespace moec {

class BlockNode : public ViewNode {
 public:
  // Element i of axis a belongs to block (i + phase[a]) / block[a]. The first axes of each
  // parameter count the blocks; one more axis may hold what a block has several of.
  struct Blocks {
    Dims block, phase;
  };

  BlockNode(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks);

  Status read(const Region& region, const Destination& to, ReadContext& context) const override;
  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override;
  bool reorders() const override { return child_->reorders(); }
  NodePtr slice(const SliceStep& step) const override;
  NodePtr permute(const PermuteStep& step) const override;
  // Axes along which each element is a block of its own may be split and joined. An axis with
  // blocks of several elements must stay as it is; only axes of size 1 may be added or dropped
  // beside it.
  NodePtr reshape(const Dims& dims) const override;

 protected:
  // Elements of the region that lie side by side along the last axis and belong to one block or,
  // where blocks have one element along that axis, to a block each.
  struct Run {
    float* values = nullptr;
    int64_t count = 0;
    int64_t block = 0;      // of the first element, counted in the region's blocks
    bool one_block = true;  // else element i belongs to block `block` + i
  };
  // Replaces the values of the run by the node's; `parameters` hold those of the region's blocks.
  virtual Status apply(const Run& run, const std::vector<const float*>& parameters,
                       StreamReport& report) const = 0;
  // The same kind of node over other inputs.
  virtual NodePtr with(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks) const = 0;

  // How many values each block has of a parameter.
  int64_t per_block(size_t parameter) const;

 private:
  uint64_t blocks_in(const ViewNode& parameter) const;
  std::optional<size_t> blocked_axis(const AxisGroup& group) const;
  int64_t block_index(size_t axis, int64_t index) const;
  Region blocks_of(const Region& region) const;
  Region region_of(const Region& blocks, const ViewNode& parameter) const;
  Status apply_rows(const Region& region, const Region& blocks,
                    const std::vector<const float*>& parameters, float* values,
                    StreamReport& report) const;
  Status apply_row(const Region& region, int64_t block, const std::vector<const float*>& parameters,
                   float* values, StreamReport& report) const;

  NodePtr child_;
  std::vector<NodePtr> parameters_;
  Blocks blocks_;
};

}  // namespace moec
