// Base class of nodes with parameters per block of elements: a scale, an offset, a table.
// Implements slices, permutes and reshapes of the blocks, and reads the parameters of a region.
#pragma once

#include <optional>
#include <vector>

#include "backends/weights/views/view_node.h"

namespace moec {

class BlockNode : public ViewNode {
 public:
  // Element i of axis a belongs to block (i + phase[a]) / block[a]. The first axes of each
  // parameter count the blocks. A parameter with several values per block has one more axis.
  struct Blocks {
    Dims block, phase;
  };

  BlockNode(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks);

  Status read(const Region& region, const Destination& to, ReadContext& context) const override;
  uint64_t scratch_bytes(uint64_t elements, const ReaderOptions& options) const override;
  bool reorders() const override { return child_->reorders(); }
  NodePtr slice(const SliceStep& step) const override;
  NodePtr permute(const PermuteStep& step) const override;
  // Axes with blocks of a single element can be split and joined. An axis with larger blocks
  // cannot; only axes of size 1 can be added or dropped next to it.
  NodePtr reshape(const Dims& dims) const override;

 protected:
  // Returns the rows of codes; the derived class adds its parameters. Absent if the codes are not
  // consecutive numbers, or if the blocks are not whole blocks of a matrix.
  std::optional<CodedRows> coded_rows() const;
  std::optional<StoredNumbers> parameter(size_t index) const {
    return index < parameters_.size() ? parameters_[index]->numbers() : std::nullopt;
  }
  size_t parameter_count() const { return parameters_.size(); }

  // Elements of the region that are contiguous along the last axis. All elements belong to a single
  // block, or each to a separate block if blocks have one element along that axis.
  struct Run {
    float* values = nullptr;
    int64_t count = 0;
    int64_t block = 0;      // of the first element, as an index into the region's blocks
    bool one_block = true;  // else element i belongs to block `block` + i
  };
  // Applies the node to the values of the run, in place; `parameters` has the parameters of the
  // region's blocks.
  virtual Status apply(const Run& run, const std::vector<const float*>& parameters,
                       StreamReport& report) const = 0;
  // Returns the same kind of node over other inputs.
  virtual NodePtr with(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks) const = 0;

  // Returns the number of values per block in a parameter.
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
