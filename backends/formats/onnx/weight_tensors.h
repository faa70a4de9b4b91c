// The weights of a graph: initializers of their values or codes, and what a node needs that takes
// codes.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "backends/emit/data_layout.h"
#include "backends/formats/onnx/graph_names.h"
#include "backends/formats/onnx/write_onnx_codes.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace moec {

class WeightTensors {
 public:
  // `location` is the data file's name. All arguments outlive the object.
  WeightTensors(const Shard& shard, const DataLayout& layout, const std::string& location,
                GraphNames& names, onnx::GraphProto& graph)
      : shard_(shard), layout_(layout), location_(location), names_(names), graph_(graph) {}

  OnnxWeightForm form_of(const Op& op) const;

  // Adds the initializer of a weight's values, or of its codes. That of a MatMulNBits has the
  // weight's name; else a DequantizeLinear gives the weight.
  void add(ValueId value);

  // Adds the nodes that give a weight of DequantizeLinear. Returns the last one, which has this
  // name and no output yet.
  onnx::NodeProto& add_dequantize(ValueId weight, const std::string& name);
  // Makes the node, which has its first input, a MatMulNBits with the weight.
  void fill_nbits(ValueId weight, onnx::NodeProto& node);

 private:
  const Encoding& encoding(ValueId weight) const;
  // Adds a node, which lies under the shard's path, that casts the input.
  onnx::NodeProto& add_cast(const std::string& input, int dtype, const std::string& name);
  // Adds the parts of a weight besides its codes as inputs of the node that takes them. Nodes that
  // use one weight share them. `zeros_type` is the ONNX type of its zeros.
  void add_parameters(ValueId weight, int zeros_type, onnx::NodeProto& node);

  const Shard& shard_;
  const DataLayout& layout_;
  const std::string& location_;
  GraphNames& names_;
  onnx::GraphProto& graph_;
  std::map<ValueId, std::string> codes_;  // of weights of DequantizeLinear
  std::map<std::pair<ValueId, WeightPart>, std::string> parameters_;
};

}  // namespace moec
