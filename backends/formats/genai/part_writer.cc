#include "backends/formats/genai/part_writer.h"

#include <onnx/onnx_pb.h>

#include <cstring>
#include <vector>

#include "backends/formats/genai/symbolic_graph.h"

namespace moec {
namespace {

// Values that are equal in every part.
bool is_shared(std::string_view name) {
  return name.starts_with(kIntegersPrefix) || name.starts_with(kSizePrefix);
}

std::vector<int64_t> integers_of(const onnx::TensorProto& tensor) {
  std::vector<int64_t> values(tensor.raw_data().size() / sizeof(int64_t));
  std::memcpy(values.data(), tensor.raw_data().data(), values.size() * sizeof(int64_t));
  return values;
}

}  // namespace

std::string PartNames::operator()(const std::string& name) const {
  if (name.empty()) return name;
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  return is_shared(name) ? name : prefix_ + name;
}

void PartWriter::write_initializers(const onnx::GraphProto& part, PartNames& names) {
  for (const onnx::TensorProto& tensor : part.initializer()) {
    if (std::string_view(tensor.name()).starts_with(kIntegersPrefix)) {
      nodes_.integers(integers_of(tensor));
      continue;
    }
    const bool weight = tensor.data_location() == onnx::TensorProto::EXTERNAL;
    std::string name = weight ? tensor.name() : names(tensor.name());
    // Two shards may store the same tensor, such as a norm, in their own data files.
    if (!initializers_.insert(name).second) name = names(tensor.name());
    initializers_.insert(name);
    names.set(tensor.name(), name);
    onnx::TensorProto& copy = *graph_.add_initializer();
    copy = tensor;
    copy.set_name(name);
  }
}

void PartWriter::write(const onnx::GraphProto& part, PartNames& names, onnx::GraphProto& body) {
  write_initializers(part, names);
  for (const onnx::NodeProto& node : part.node()) {
    const bool is_size = std::string_view(node.output(0)).starts_with(kSizePrefix);
    if (is_size && !sizes_.insert(node.output(0)).second) continue;
    onnx::NodeProto& copy = *body.add_node();
    copy = node;
    for (std::string& input : *copy.mutable_input()) input = names(input);
    for (std::string& output : *copy.mutable_output()) output = names(output);
    // Nodes that were added to a part (GraphNodes) have the names of their outputs.
    if (node.name() == node.output(0)) copy.set_name(copy.output(0));
  }
}

DType port_dtype(const onnx::ValueInfoProto& port) {
  // Ports have float types.
  return port.type().tensor_type().elem_type() == onnx::TensorProto::FLOAT16 ? DType::f16
                                                                             : DType::f32;
}

}  // namespace moec
