#include "backends/formats/onnx/onnx_ops.h"

#include "backends/emit/graph_names.h"
#include "backends/formats/onnx/write_onnx_codes.h"

namespace moec {
namespace {

// A constant with one element is an initializer, so it needs no Expand.
bool is_splat(const Constant& constant) {
  return constant.values.size() == 1 && constant.type.elements() > 1;
}

// True for a weight with a DequantizeLinear node. Such a weight also has an initializer.
bool is_dequantized(const Shard& shard, const Op& op) {
  const auto* weight = std::get_if<Weight>(&op.data);
  return weight != nullptr && onnx_weight_form(weight->encoding, shard.type(op.results.front())) ==
                                  OnnxWeightForm::dequantize;
}

}  // namespace

bool is_initializer(const OpData& data) {
  const auto* constant = std::get_if<Constant>(&data);
  return std::holds_alternative<Weight>(data) || (constant && !is_splat(*constant));
}

IdMap<OpId, std::string> onnx_op_names(const Shard& shard) {
  GraphNames names(shard);
  IdMap<OpId, std::string> nodes(shard.ops.size());
  for (OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    const bool has_node = !is_initializer(op.data) && !is_inside_nbits(shard, op);
    if (has_node || is_dequantized(shard, op)) nodes[id] = names.node(id);
  }
  return nodes;
}

}  // namespace moec
