// Writes the weights of a graph: initializers with their values or codes, and the inputs and
// attributes of nodes that decode codes.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "backends/emit/data_layout.h"
#include "backends/emit/graph_names.h"
#include "backends/formats/onnx/write_onnx_codes.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace moec {

class WeightTensors {
 public:
  // `location` is the data file's name. All arguments must outlive the object.
  WeightTensors(const Shard& shard, const DataLayout& layout, const std::string& location,
                GraphNames& names, onnx::GraphProto& graph)
      : shard_(shard), layout_(layout), location_(location), names_(names), graph_(graph) {}

  OnnxWeightForm form_of(const Op& op) const;

  // Adds the initializer of a weight's values or codes. For a MatMulNBits, the codes get the
  // weight's name; for a DequantizeLinear, the node's result does.
  void add(ValueId value);

  // Adds the nodes that decode a weight by DequantizeLinear. Returns the last node, which has the
  // name `name` and no output yet.
  onnx::NodeProto& add_dequantize(ValueId weight, const std::string& name);
  // Turns a node that has only its first input into a MatMulNBits with the weight.
  void fill_nbits(ValueId weight, onnx::NodeProto& node);

  // For quantized weights of experts, [E, N, K].
  const AffineEncoding& affine(ValueId weight) const {
    return std::get<AffineEncoding>(encoding(weight));
  }
  // The initializer of its scales or zeros, which is added on the first use. Empty if the weight
  // has no such part.
  std::string expert_part(ValueId weight, WeightPart part);

 private:
  const Encoding& encoding(ValueId weight) const;
  // The name of the initializer of a part other than the codes, which is added on the first use.
  // Empty `dims`: a scalar. `zeros_type` is the ONNX type of u8 parts.
  const std::string& parameter(ValueId weight, const StoredPart& part, const Dims& dims,
                               int zeros_type);
  // Adds a Cast of the input, named under the shard's path.
  onnx::NodeProto& add_cast(const std::string& input, int dtype, const std::string& name);
  // Adds the parts of a weight other than its codes as inputs of the node. Nodes that use the same
  // weight share them. `zeros_type` is the ONNX type of the zeros.
  void add_parameters(ValueId weight, int zeros_type, onnx::NodeProto& node);

  const Shard& shard_;
  const DataLayout& layout_;
  const std::string& location_;
  GraphNames& names_;
  onnx::GraphProto& graph_;
  std::map<ValueId, std::string> codes_;  // names of the codes of DequantizeLinear weights
  std::map<std::pair<ValueId, WeightPart>, std::string> parameters_;
};

}  // namespace moec
