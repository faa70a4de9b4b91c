// Reads the nodes that write_moe.h describes as moe ops.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/ops.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace moec {

bool is_coded_moe(const onnx::NodeProto& node);

// Positions of the codes of a QMoE's matrices, gate_up and down, among its inputs, and of their
// zeros. The scales follow the codes.
struct ExpertInputs {
  int codes, zeros;
};
inline constexpr ExpertInputs kGateUpInputs{2, 11}, kDownInputs{5, 12};

// A moe op in the graph.
struct MoeNodes {
  const onnx::NodeProto* moe = nullptr;   // a MoE or a QMoE
  const onnx::NodeProto* last = nullptr;  // defines the op's result
  std::string routing;                    // the tensor with the routing weights
};

// The moe ops of a graph.
class MoeReader {
 public:
  explicit MoeReader(const onnx::GraphProto& graph);

  // Returns the op that the node belongs to; null if there is none. The caller reads it at its last
  // node.
  const MoeNodes* of_node(const onnx::NodeProto& node) const;

 private:
  std::vector<MoeNodes> all_;
  std::map<const onnx::NodeProto*, size_t> by_node_;
};

// Returns the attributes. Errors: onnx.attribute; onnx.op for inputs that moec does not write.
Result<Moe> read_moe(const MoeNodes& nodes);
// Returns the tensors of the operands, in their order.
std::vector<std::string> moe_tensors(const MoeNodes& nodes);

}  // namespace moec
