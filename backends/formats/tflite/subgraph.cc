#include "backends/formats/tflite/subgraph.h"

#include "backends/emit/element_bytes.h"
#include "backends/formats/tflite/tflite_types.h"

namespace moec {

Subgraph::Subgraph(ModelWriter& model)
    : model_(model),
      builder_(model.builder()),
      parts_{builder_,
             [this](const auto& values, const Dims& dims) { return integers(values, dims); },
             [this](DType dtype) { return one(dtype); }} {}

int32_t Subgraph::add_tensor(const SubgraphTensor& tensor) {
  const auto shape =
      builder_.CreateVector(std::vector<int32_t>(tensor.dims.begin(), tensor.dims.end()));
  const auto name = builder_.CreateString(tensor.name);
  // has_rank distinguishes a scalar from a tensor of unknown rank.
  tensors_.push_back(tflite::CreateTensor(builder_, shape, tensor.type, tensor.buffer, name,
                                          tensor.quantization, /*is_variable=*/false, 0, 0,
                                          /*has_rank=*/true));
  return static_cast<int32_t>(tensors_.size()) - 1;
}

int32_t Subgraph::add_computed(const std::string& name, const Type& type) {
  return add_tensor({name, *tflite_dtype(type.dtype), type.dims});
}

// Also a splat is stored with all elements: a BROADCAST_TO would end a partition of XNNPACK, and
// equal constants share a buffer.
int32_t Subgraph::add_constant(const std::string& name, const Constant& op) {
  const std::string element = element_bytes(op.type.dtype, op.values);
  std::string bytes = element;
  if (op.values.size() == 1)
    for (int64_t i = 1; i < op.type.elements(); ++i) bytes += element;
  return add_tensor(
      {name, *tflite_dtype(op.type.dtype), op.type.dims, model_.inline_buffer(bytes)});
}

int32_t Subgraph::integers(const std::vector<int64_t>& values, const Dims& dims) {
  // A shard has thousands of sizes and axes but few distinct values.
  const auto [found, is_new] = integers_.try_emplace({values, dims}, 0);
  if (!is_new) return found->second;
  const std::vector<double> numbers(values.begin(), values.end());
  const uint32_t buffer = model_.inline_buffer(element_bytes(DType::i32, numbers));
  const std::string name = "i32" + to_string(Dims(values));
  return found->second = add_tensor({name, tflite::TensorType::INT32, dims, buffer});
}

int32_t Subgraph::one(DType dtype) {
  const auto [found, is_new] = ones_.try_emplace(dtype, 0);
  if (is_new) found->second = add_constant("one", {{dtype, {1}}, {1}});
  return found->second;
}

void Subgraph::add_operator(const TfliteNode& node, const std::vector<int32_t>& outputs) {
  const auto ins = builder_.CreateVector(node.inputs), outs = builder_.CreateVector(outputs);
  operators_.push_back(tflite::CreateOperator(
      builder_, model_.operator_code(node.code, node.version), ins, outs, node.type, node.options));
}

void Subgraph::add_input(const std::string& name, int32_t tensor) {
  signature_.inputs.push_back({name, static_cast<uint32_t>(tensor)});
  inputs_.push_back(tensor);
}

void Subgraph::add_output(const std::string& name, int32_t tensor) {
  signature_.outputs.push_back({name, static_cast<uint32_t>(tensor)});
  outputs_.push_back(tensor);
}

void Subgraph::finish(const std::string& key) {
  signature_.key = key;
  const auto tensors = builder_.CreateVector(tensors_);
  const auto inputs = builder_.CreateVector(inputs_), outputs = builder_.CreateVector(outputs_);
  const auto operators = builder_.CreateVector(operators_);
  const auto name = builder_.CreateString(key);
  model_.add_subgraph(tflite::CreateSubGraph(builder_, tensors, inputs, outputs, operators, name),
                      signature_);
}

}  // namespace moec
