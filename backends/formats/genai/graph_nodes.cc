#include "backends/formats/genai/graph_nodes.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "backends/formats/onnx/initializers.h"
#include "backends/formats/onnx/set_attributes.h"

namespace moec {

onnx::NodeProto& GraphNodes::node(std::string_view type, const std::vector<std::string>& inputs,
                                  const std::string& output) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(type));
  node.set_name(output);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

std::string GraphNodes::concat(const std::vector<std::string>& inputs, int64_t axis,
                               const std::string& output) {
  set_int(node("Concat", inputs, output), "axis", axis);
  return output;
}

std::string GraphNodes::transpose(const std::string& input, const std::vector<int64_t>& perm,
                                  const std::string& output) {
  set_ints(node("Transpose", {input}, output), "perm", perm);
  return output;
}

std::string GraphNodes::integers(const std::vector<int64_t>& values) {
  const std::string name = "i64" + to_string(Dims(values));
  if (!known_.emplace(name, true).second) return name;
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  fill_integers(values, tensor);
  return name;
}

std::string GraphNodes::integer(int64_t value) {
  return initializer(fmt::format("i64({})", value), {DType::i64, {}}, {static_cast<double>(value)});
}

std::string GraphNodes::number(DType dtype, double value) {
  return initializer(fmt::format("{}({})", dtype_name(dtype), value), {dtype, {}}, {value});
}

std::string GraphNodes::initializer(const std::string& name, const Type& type,
                                    const std::vector<double>& values) {
  if (!known_.emplace(name, true).second) return name;
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  fill_inline(type, values, tensor);
  return name;
}

bool reads(const onnx::NodeProto& node, const std::string& value) {
  return std::find(node.input().begin(), node.input().end(), value) != node.input().end();
}

bool has_reader(const onnx::GraphProto& graph, const std::string& value) {
  return std::any_of(graph.node().begin(), graph.node().end(),
                     [&](const onnx::NodeProto& node) { return reads(node, value); });
}

}  // namespace moec
