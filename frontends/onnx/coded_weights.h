// Weights that lie in a file as codes: what a DequantizeLinear gives, or what a MatMulNBits of
// onnxruntime multiplies with. backends/onnx/encoded_weights.h has the forms.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"
#include "ir/graph/weight_view.h"

namespace onnx {
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace moec {

inline constexpr std::string_view kMicrosoftDomain = "com.microsoft";

bool is_dequantize(const onnx::NodeProto& node);
bool is_nbits(const onnx::NodeProto& node);

// The initializer with the codes, for a node of these kinds.
const std::string& codes_of(const onnx::NodeProto& node);
// The name that the decoded weight has in the graph: that of the node's output, or of the codes
// where the node multiplies with them.
const std::string& decoded_name(const onnx::NodeProto& node);

using Initializers = std::map<std::string_view, const onnx::TensorProto*>;

// The view that decodes the node's weight; for MatMulNBits, [N, K]. Adds the ranges of its parts to
// the table, those of the codes under decoded_name(). Errors: onnx.op, onnx.attribute, onnx.dtype,
// onnx.shape, onnx.external_data.
Result<WeightView> read_coded_weight(const onnx::NodeProto& node, const Initializers& initializers,
                                     const std::string& folder, WeightTable& table);

}  // namespace moec
