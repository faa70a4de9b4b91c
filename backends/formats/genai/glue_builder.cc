#include "backends/formats/genai/glue_builder.h"

#include <onnx/onnx_pb.h>

#include "backends/emit/message_bytes.h"
#include "backends/formats/genai/model_file.h"

namespace moec {
GlueBuilder::GlueBuilder(const Manifest& manifest, const std::string& name)
    : model_(std::make_unique<onnx::ModelProto>()), nodes_(*model_->mutable_graph()) {
  begin_model(manifest.tool.version, *model_);
  model_->mutable_graph()->set_name(name);
}

GlueBuilder::~GlueBuilder() = default;

onnx::GraphProto& GlueBuilder::proto() { return *model_->mutable_graph(); }

void GlueBuilder::input(const std::string& name, const manifest::Port& port) {
  declare_port(name, port.dtype, fixed_sizes(port.dims), *proto().add_input());
}

void GlueBuilder::output(const std::string& name, const manifest::Port& port) {
  declare_port(name, port.dtype, fixed_sizes(port.dims), *proto().add_output());
}

std::string GlueBuilder::pack(const std::string& rows, const manifest::Port& port,
                              const std::string& name) {
  const std::string ordered =
      is_channel_major(port.layout) ? nodes_.transpose(rows, {1, 0}, name + "/channels") : rows;
  return nodes_.reshape(ordered, port.dims, name);
}

std::string GlueBuilder::unpack(const std::string& value, const manifest::Port& port,
                                const std::string& name) {
  if (!is_channel_major(port.layout)) return value;
  const std::string channels = nodes_.reshape(value, {at(port.dims, 1), -1}, name + "/channels");
  return nodes_.transpose(channels, {1, 0}, name);
}

GlueGraph GlueBuilder::finish() {
  GlueGraph graph;
  for (const auto& input : proto().input()) graph.inputs.push_back(input.name());
  for (const auto& output : proto().output()) graph.outputs.push_back(output.name());
  graph.bytes = message_bytes(*model_);
  return graph;
}

}  // namespace moec
