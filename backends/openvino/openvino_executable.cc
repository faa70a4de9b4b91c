#include "backends/openvino/openvino_executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "backends/openvino/port_values.h"

namespace moec {
namespace {

size_t bytes_of(const Type& type) {
  return static_cast<size_t>(type.elements()) * static_cast<size_t>(dtype_bytes(type.dtype));
}

tl::unexpected<Diagnostics> unlike_manifest(const std::string& what, const Place& place) {
  return fail("session.port", what, "export the model again", place);
}

const manifest::Port* find(const std::vector<manifest::Port>& ports, const std::string& name) {
  const auto found = std::find_if(ports.begin(), ports.end(),
                                  [&](const manifest::Port& port) { return port.name == name; });
  return found == ports.end() ? nullptr : &*found;
}

// The layout of a value with a row for each token: files do not name it.
Layout watched_layout(const Type& type, Layout of_export) {
  if (type.rank() == 2) return Layout::rows;
  return is_channel_major(of_export) ? of_export : Layout::channels;
}

// Names ports of a model, of whose values several names may be known, as the manifest does.
class PortNames {
 public:
  PortNames(const ShardGraph& graph, const std::vector<manifest::Port>& ports, const Place& place)
      : graph_(graph), ports_(ports), place_(place) {}

  // Error session.port: a port has another type than in the manifest, or one is missing.
  Result<std::vector<NamedType>> of(const std::vector<OpenVinoPort>& model) {
    std::vector<NamedType> named;
    for (const OpenVinoPort& port : model) {
      MOEC_ASSIGN(NamedType one, of(port));
      named.push_back(std::move(one));
    }
    if (taken_.size() == ports_.size()) return named;
    return unlike_manifest("the file lacks a port that the manifest lists", place_);
  }

 private:
  // Two ports may pass on one value, which has the names of both.
  Result<NamedType> of(const OpenVinoPort& port) {
    for (const std::string& name : port.names) {
      const manifest::Port* known = find(ports_, name);
      if (known == nullptr || !taken_.insert(name).second) continue;
      const Type type = known->type();
      if (type.dtype == port.type.dtype && type.dims == port.type.dims)
        return NamedType{name, type};
      return unlike_manifest(fmt::format("port '{}' is {} in the file and {} in the manifest", name,
                                         to_string(port.type), to_string(type)),
                             place_);
    }
    return NamedType{
        port.names.empty() ? std::string() : port.names.front(),
        {port.type.dtype, port.type.dims, watched_layout(port.type, graph_.manifest.build.layout)}};
  }

  const ShardGraph& graph_;
  const std::vector<manifest::Port>& ports_;
  const Place& place_;
  std::set<std::string> taken_;
};

// Ports of moec have types that arithmetic takes.
Status check_types(const std::vector<NamedType>& ports, const Place& place) {
  for (const NamedType& port : ports)
    if (!is_float(port.type.dtype))
      return unlike_manifest(
          fmt::format("port '{}' has the type {}", port.name, to_string(port.type)), place);
  return {};
}

}  // namespace

Result<std::unique_ptr<Executable>> OpenVinoExecutable::create(const ShardGraph& graph,
                                                               std::unique_ptr<OpenVinoModel> model,
                                                               uint64_t held) {
  std::unique_ptr<OpenVinoExecutable> executable(new OpenVinoExecutable);
  const manifest::Width& file = graph.file();
  executable->place_ = {.shard = graph.shard.name, .file = file.file.path};
  MOEC_ASSIGN(executable->inputs_,
              PortNames(graph, file.inputs, executable->place_).of(model->inputs()));
  MOEC_ASSIGN(executable->outputs_,
              PortNames(graph, file.outputs, executable->place_).of(model->outputs()));
  MOEC_TRY(check_types(executable->inputs_, executable->place_));
  MOEC_TRY(check_types(executable->outputs_, executable->place_));
  for (const OpenVinoPort& port : model->outputs()) executable->labels_.push_back(port.names);
  executable->memory_.held = held;
  for (const auto* ports : {&executable->inputs_, &executable->outputs_})
    for (const NamedType& port : *ports)
      executable->memory_.run +=
          bytes_of(port.type) + 2 * sizeof(float) * static_cast<size_t>(port.type.elements());
  executable->model_ = std::move(model);
  return executable;
}

Result<NamedTensors> OpenVinoExecutable::run(const NamedTensors& inputs, const Probe& probe) {
  std::vector<PortBytes> converted(inputs_.size());
  std::vector<const void*> elements;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto& [name, type] = inputs_[i];
    const auto found = inputs.find(name);
    if (found == inputs.end())
      return unlike_manifest(
          fmt::format("the file has an input '{}' that the manifest does not bind", name), place_);
    const std::vector<float>& values = found->second.data;
    if (std::ssize(values) != type.elements())
      return unlike_manifest(
          fmt::format("input '{}' is {}, got {} elements", name, to_string(type), values.size()),
          place_);
    elements.push_back(values.data());
    if (type.dtype == DType::f32) continue;
    converted[i] = to_port(type, values);
    elements.back() = converted[i].data();
  }
  MOEC_TRY(model_->run(elements));
  NamedTensors outputs;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto& [name, type] = outputs_[i];
    Tensor& tensor = outputs[name] = {type, from_port(type, model_->output(i))};
    if (!probe) continue;
    for (const std::string& label : labels_[i]) probe(label, tensor);
  }
  return outputs;
}

Status OpenVinoExecutable::set_state(std::string_view name, Tensor) {
  return unlike_manifest(fmt::format("the file has no state '{}'", name), place_);
}

}  // namespace moec
