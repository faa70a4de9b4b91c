// Weights that lie in a file as codes: what a DequantizeLinear gives, perhaps between casts, or
// what a MatMulNBits of onnxruntime multiplies with. backends/formats/onnx/write_onnx_codes.h has
// the forms.
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
  const onnx::NodeProto* node = nullptr;  // a DequantizeLinear or a MatMulNBits
  // Casts of the scales to f32 and of the values to f16; both or none.
  const onnx::NodeProto* widen = nullptr;
  const onnx::NodeProto* narrow = nullptr;
};

// The decoders of a graph.
class Decoders {
 public:
  explicit Decoders(const onnx::GraphProto& graph);

  // The one whose codes are the initializer, or that has the node; null where there is none.
  const Decoder* of_codes(std::string_view initializer) const;
  const Decoder* of_node(const onnx::NodeProto& node) const;

 private:
  std::map<std::string_view, Decoder> by_codes_;  // the first one where several share codes
  std::map<const onnx::NodeProto*, Decoder> by_node_;
};

// The name that the decoded weight has in the graph: that of the last node's output, or of the
// codes where the node multiplies with them.
const std::string& decoded_name(const Decoder& decoder);

using Initializers = std::map<std::string_view, const onnx::TensorProto*>;

// The view that decodes a weight; for MatMulNBits, [N, K]. Adds the ranges of its parts to
// the table, those of the codes under decoded_name(). Errors: onnx.op, onnx.attribute, onnx.dtype,
// onnx.shape, onnx.external_data.
Result<WeightView> read_coded_weight(const Decoder& decoder, const Initializers& initializers,
                                     const std::string& folder, WeightTable& table);

}  // namespace moec
