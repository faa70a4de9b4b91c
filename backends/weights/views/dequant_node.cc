// The node that subtracts an offset from the elements of each block and multiplies them by a scale.
#include "backends/weights/views/block_node.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

class DequantNode : public BlockNode {
 public:
  using BlockNode::BlockNode;

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

}  // namespace moec
