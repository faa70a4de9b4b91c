#include "backends/formats/genai/model_file.h"

#include <onnx/onnx_pb.h>

#include "backends/formats/onnx/initializers.h"
#include "backends/formats/onnx/onnx_names.h"
#include "backends/formats/onnx/onnx_types.h"

namespace moec {
namespace {

void add_opset(onnx::ModelProto& model, const char* domain, int64_t version) {
  auto& opset = *model.add_opset_import();
  opset.set_domain(domain);
  opset.set_version(version);
}

}  // namespace

void begin_model(const std::string& producer, onnx::ModelProto& model) {
  model.set_ir_version(kOnnxIrVersion);
  model.set_producer_name("moec");
  model.set_producer_version(producer);
  add_opset(model, "", kOnnxOpset);
  // Imported even if unused: the only engine of these graphs has the domain.
  add_opset(model, kMicrosoftDomain, 1);
}

void declare_port(const std::string& name, DType dtype, const std::vector<PortSize>& sizes,
                  onnx::ValueInfoProto& port) {
  port.set_name(name);
  auto& type = *port.mutable_type()->mutable_tensor_type();
  type.set_elem_type(*onnx_dtype(dtype));
  for (const PortSize& size : sizes) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (size.name.empty())
      dim.set_dim_value(size.size);
    else
      dim.set_dim_param(size.name);
  }
}

std::vector<PortSize> fixed_sizes(const std::vector<int64_t>& sizes) {
  std::vector<PortSize> ports;
  for (const int64_t size : sizes) ports.push_back({size, {}});
  return ports;
}

std::string add_table(const std::string& name, const manifest::TableFile& file,
                      onnx::GraphProto& graph) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  fill_external({file.dtype, {file.rows, file.columns}}, file.file.path, 0,
                static_cast<uint64_t>(file.file.bytes), tensor);
  return name;
}

}  // namespace moec
