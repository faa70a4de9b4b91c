// The node that looks its elements up in the table of their block.
#include <fmt/format.h>

#include "backends/weights/views/block_node.h"

namespace moec {
namespace {

class LutNode : public BlockNode {
 public:
  using BlockNode::BlockNode;

 protected:
  Status apply(const Run& run, const std::vector<const float*>& parameters,
               StreamReport&) const override {
    const int64_t entries = per_block(0);
    const float* table = parameters[0] + run.block * entries;
    for (int64_t i = 0; i < run.count; ++i) {
      float& value = run.values[i];
      if (!(value >= 0 && value < static_cast<float>(entries)))
        return fail("weights.bad_index",
                    fmt::format("index {} is outside a table of {} entries", value, entries),
                    "the codes and the tables do not belong together: fetch the file again");
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

}  // namespace moec
