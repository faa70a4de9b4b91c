// Reads weights that are stored as codes: the result of a DequantizeLinear, optionally with casts
// around it, or the operand of onnxruntime's MatMulNBits or QMoE. write_onnx_codes.h documents the
// forms.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "backends/formats/onnx/onnx_names.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/graph/weight_view.h"

namespace onnx {
class GraphProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace moec {

bool is_nbits(const onnx::NodeProto& node);

// The nodes that decode a weight.
struct Decoder {
  const onnx::NodeProto* node = nullptr;  // a DequantizeLinear, a MatMulNBits or a QMoE
  int codes = 0;                          // position of the codes among the node's inputs
  // Casts of the scales to f32 and of the values to f16. Either both are set or neither.
  const onnx::NodeProto* widen = nullptr;
  const onnx::NodeProto* narrow = nullptr;
};

// The decoders of a graph.
class Decoders {
 public:
  explicit Decoders(const onnx::GraphProto& graph);

  // Return the decoder of these codes, or the decoder that contains this node; null if there is
  // none. A QMoE, which decodes two weights, is not part of a decoder.
  const Decoder* of_codes(std::string_view initializer) const;
  const Decoder* of_node(const onnx::NodeProto& node) const;

 private:
  void add_experts(const onnx::NodeProto& node);

  std::map<std::string_view, Decoder> by_codes_;  // the first one if several share codes
  std::map<const onnx::NodeProto*, Decoder> by_node_;
};

// Returns the name of the decoded weight in the graph: the output of the last decoding node, or the
// codes for a MatMulNBits or a QMoE.
const std::string& decoded_name(const Decoder& decoder);

using Initializers = std::map<std::string_view, const onnx::TensorProto*>;

// Returns the view that decodes a weight; its shape is [N, K] for MatMulNBits and [E, N, K] for
// QMoE. Adds the ranges of the weight's parts to the table; the codes get the name decoded_name().
// Errors: onnx.op, onnx.attribute, onnx.dtype, onnx.shape, onnx.external_data.
Result<WeightView> read_coded_weight(const Decoder& decoder, const Initializers& initializers,
                                     const std::string& folder, WeightTable& table);

}  // namespace moec
