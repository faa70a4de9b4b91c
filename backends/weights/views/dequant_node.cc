// Nodes that change the elements of each block by the block's parameters: a scale and an offset, or
// a table.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "backends/weights/views/block_node.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

class DequantNode : public BlockNode {
 public:
  using BlockNode::BlockNode;

  std::optional<CodedRows> coded() const override {
    auto rows = coded_rows();
    const auto scales = parameter(0), offsets = parameter(1);
    if (!rows || !scales || (parameter_count() > 1 && !offsets)) return std::nullopt;
    rows->scales = *scales;
    if (offsets) rows->offsets = *offsets;
    return rows;
  }

 protected:
  Status apply(const Run& run, const std::vector<const float*>& parameters,
               StreamReport& report) const override {
    const auto count = static_cast<size_t>(run.count);
    const float* scales = parameters[0] + run.block;
    if (parameters.size() > 1) subtract(run, parameters[1] + run.block);
    report.overflows +=
        run.one_block ? scale(*scales, run.values, count) : multiply(scales, run.values, count);
    return {};
  }

  NodePtr with(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks) const override {
    return std::make_shared<DequantNode>(std::move(child), std::move(parameters),
                                         std::move(blocks));
  }

 private:
  static void subtract(const Run& run, const float* offsets) {
    for (int64_t i = 0; i < run.count; ++i) run.values[i] -= run.one_block ? *offsets : offsets[i];
  }
};

}  // namespace

NodePtr dequant_node(NodePtr child, NodePtr scale, NodePtr offset, const Dims& block) {
  std::vector<NodePtr> parameters{std::move(scale)};
  if (offset) parameters.push_back(std::move(offset));
  return std::make_shared<DequantNode>(std::move(child), std::move(parameters),
                                       BlockNode::Blocks{block, Dims(block.size(), 0)});
}

namespace {

// Replaces each element by an entry of its block's table.
class LutNode : public BlockNode {
 public:
  using BlockNode::BlockNode;

  // Requires an entry for every possible code, because decode_rows() does not check the range of
  // codes.
  std::optional<CodedRows> coded() const override {
    auto rows = coded_rows();
    const auto table = parameter(0);
    if (!rows || !table || !rows->codes.are_indices(per_block(0))) return std::nullopt;
    rows->table = *table;
    rows->entries = per_block(0);
    return rows;
  }

 protected:
  Status apply(const Run& run, const std::vector<const float*>& parameters,
               StreamReport&) const override {
    const int64_t entries = per_block(0);
    const float* table = parameters[0] + run.block * entries;
    for (int64_t i = 0; i < run.count; ++i) {
      float& value = run.values[i];
      // The negation also rejects NaN.
      if (!(value >= 0 && value < static_cast<float>(entries)))
        return fail("weights.bad_index",
                    fmt::format("index {} is outside a table of {} entries", value, entries),
                    "download the file again");
      value = table[static_cast<int64_t>(value)];
      if (!run.one_block) table += entries;
    }
    return {};
  }

  NodePtr with(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks) const override {
    return std::make_shared<LutNode>(std::move(child), std::move(parameters), std::move(blocks));
  }
};

}  // namespace

NodePtr lut_node(NodePtr child, NodePtr table, const Dims& block) {
  return std::make_shared<LutNode>(std::move(child), std::vector<NodePtr>{std::move(table)},
                                   BlockNode::Blocks{block, Dims(block.size(), 0)});
}

namespace {

// Adds an operand to the elements of each block, or divides them by it.
class BlockwiseNode : public BlockNode {
 public:
  BlockwiseNode(NodePtr child, BlockwiseOp op, std::vector<NodePtr> operand, Blocks blocks)
      : BlockNode(std::move(child), std::move(operand), std::move(blocks)), op_(op) {}

 protected:
  Status apply(const Run& run, const std::vector<const float*>& parameters,
               StreamReport& report) const override {
    const float* operand = parameters[0] + run.block;
    for (int64_t i = 0; i < run.count; ++i) {
      const float value = run.values[i], other = run.one_block ? *operand : operand[i];
      run.values[i] = op_ == BlockwiseOp::add ? value + other : value / other;
      report.overflows += std::isfinite(value) && std::isinf(run.values[i]) ? 1 : 0;
    }
    return {};
  }

  NodePtr with(NodePtr child, std::vector<NodePtr> parameters, Blocks blocks) const override {
    return std::make_shared<BlockwiseNode>(std::move(child), op_, std::move(parameters),
                                           std::move(blocks));
  }

 private:
  BlockwiseOp op_;
};

}  // namespace

NodePtr blockwise_node(NodePtr child, BlockwiseOp op, NodePtr operand, const Dims& block) {
  return std::make_shared<BlockwiseNode>(std::move(child), op,
                                         std::vector<NodePtr>{std::move(operand)},
                                         BlockNode::Blocks{block, Dims(block.size(), 0)});
}

}  // namespace moec
