#include "backends/openvino/openvino_engine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "backends/openvino/compiled_cache.h"
#include "backends/openvino/openvino_api.h"
#include "backends/openvino/port_values.h"
#include "backends/runtime/session/engine.h"
#include "ir/base/process_memory.h"

namespace moec {

namespace {

// A compiled model whose ports have the names and types of the manifest.

class OpenVinoExecutable : public Executable {
 public:
  // `held` is the memory of the model in bytes. Error: session.port (the ports of the file differ
  // from those of the graph in the manifest).
  static Result<std::unique_ptr<Executable>> create(const ShardGraph& graph,
                                                    std::unique_ptr<OpenVinoModel> model,
                                                    uint64_t held);

  std::span<const NamedType> inputs() const override { return inputs_; }
  // Calls the probe for all outputs of the model, including watched values, under each name of the
  // value.
  Result<NamedTensors> run(const NamedTensors& inputs, const Probe& probe) override;
  const Tensor* state(std::string_view) const override { return nullptr; }
  Status set_state(std::string_view name, Tensor value) override;
  const ExecutorMemory& memory() const override { return memory_; }
  void release_weights_after_use() override {}

 private:
  OpenVinoExecutable() = default;

  std::unique_ptr<OpenVinoModel> model_;
  std::vector<NamedType> inputs_, outputs_;       // in the order of the model; watched values last
  std::vector<std::vector<std::string>> labels_;  // of the outputs
  ExecutorMemory memory_;
  Place place_;
};

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

// Returns the layout of a watched value with one row per token, which files do not record.
Layout watched_layout(const Type& type, Layout of_export) {
  if (type.rank() == 2) return Layout::rows;
  return is_channel_major(of_export) ? of_export : Layout::channels;
}

// Maps the ports of a model to those of the manifest. A model's port may have several names.
class PortNames {
 public:
  PortNames(const ShardGraph& graph, const std::vector<manifest::Port>& ports, const Place& place)
      : graph_(graph), ports_(ports), place_(place) {}

  // Error: session.port (a port is missing, or its type differs from the manifest).
  Result<std::vector<NamedType>> of(const std::vector<OpenVinoPort>& model) {
    std::vector<NamedType> named;
    for (const OpenVinoPort& port : model) {
      MOEC_ASSIGN(NamedType one, of(port));
      named.push_back(std::move(one));
    }
    if (taken_.size() == ports_.size()) return named;
    return unlike_manifest("the file lacks a port of the manifest", place_);
  }

 private:
  // If two ports share a value, the value has the names of both.
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

// Requires float ports: moec's graphs have no others.
Status check_types(const std::vector<NamedType>& ports, const Place& place) {
  for (const NamedType& port : ports)
    if (!is_float(port.type.dtype))
      return unlike_manifest(fmt::format("port '{}' has the type {}, expected a float type",
                                         port.name, to_string(port.type)),
                             place);
  return {};
}

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
      return unlike_manifest(fmt::format("the manifest does not bind input '{}' of the file", name),
                             place_);
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

// Loads the module with OpenVINO's part of the engine.

// The module is next to the program. No search path is used, so that the environment cannot
// substitute another library.
std::string module_path() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : (program.parent_path() / kOpenVinoModule).string();
}

tl::unexpected<Diagnostics> not_built(const std::string& path) {
  return fail("engine.not_built", "this build of moec does not include OpenVINO",
              "install OpenVINO, or its wheel into .venv (scripts/install_python.sh), and build "
              "with -DMOEC_OPENVINO=ON; or run without --engine",
              {.file = path});
}

tl::unexpected<Diagnostics> not_loaded(const std::string& path, const std::string& why) {
  return fail("engine.library", fmt::format("OpenVINO cannot be loaded: {}", why),
              "reinstall the OpenVINO version that moec was built with, or rebuild moec",
              {.file = path});
}

// Keeps the module loaded until the process ends. Errors: engine.not_built (this build has no
// module), engine.library (the module or its OpenVINO cannot be loaded or fails to start).
Result<std::unique_ptr<OpenVinoLibrary>> load_openvino() {
  const std::string path = module_path();
  if (path.empty() || ::access(path.c_str(), F_OK) != 0) return not_built(path);
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return not_loaded(path, ::dlerror());
  const auto open = reinterpret_cast<OpenVinoEntry>(::dlsym(module, kOpenVinoModuleEntry));
  if (open == nullptr) return not_loaded(path, ::dlerror());
  std::unique_ptr<OpenVinoLibrary> library(open());
  if (!library) return not_loaded(path, "it fails to start");
  return library;
}

// "GPU" means the first GPU, which OpenVINO lists as "GPU.0" if there are several.
bool has_device(const std::vector<std::string>& devices, const std::string& device) {
  return std::any_of(devices.begin(), devices.end(), [&](const std::string& present) {
    return present == device || present == device + ".0";
  });
}

Status check_device(const OpenVinoLibrary& library, const std::string& device) {
  const std::vector<std::string> devices = library.devices();
  if (has_device(devices, device)) return {};
  return fail("engine.device",
              fmt::format("OpenVINO found no device {} on this machine, only {}", device,
                          devices.empty() ? "none" : fmt::format("{}", fmt::join(devices, ", "))),
              "pass one of these devices as --device, or install the device's driver");
}

uint64_t file_bytes(const ShardGraph& graph) {
  auto bytes = static_cast<uint64_t>(graph.file().file.bytes);
  for (const manifest::FileRef& data : graph.shard.data) bytes += static_cast<uint64_t>(data.bytes);
  return bytes;
}

class OpenVinoEngine : public Engine {
 public:
  OpenVinoEngine(std::unique_ptr<OpenVinoLibrary> library, OpenVinoOptions options)
      : library_(std::move(library)), options_(std::move(options)) {
    traits_.device = options_.device;
  }

  const EngineTraits& traits() const override { return traits_; }

  Status accepts(const Manifest& manifest, Precision precision) const override {
    if (manifest.build.format != ShardFormat::onnx)
      return fail("engine.format",
                  fmt::format("the export has format {}, OpenVINO runs only ONNX",
                              enum_name(manifest.build.format)),
                  "export for target onnx, or run without --engine");
    const std::vector<std::string> precisions = library_->precisions(options_.device);
    if (std::find(precisions.begin(), precisions.end(), enum_name(precision)) != precisions.end())
      return {};
    return fail("engine.precision",
                fmt::format("device {} ({}) does not compute in {}, only in {}", options_.device,
                            library_->full_name(options_.device), enum_name(precision),
                            fmt::join(precisions, ", ")),
                "pass one of these as --precision, or run without --engine to round to f16 after "
                "every op");
  }

  Result<std::unique_ptr<Executable>> compile(const ShardGraph& graph,
                                              const GraphOptions& options) override {
    const uint64_t before = process_memory().resident;
    const OpenVinoCompile wanted{options_.device, std::string(enum_name(options.precision)),
                                 options.watched};
    MOEC_ASSIGN(std::unique_ptr<OpenVinoModel> model, compiled(graph, wanted));
    const uint64_t after = process_memory().resident;
    const uint64_t grown = after > before ? after - before : 0;
    return OpenVinoExecutable::create(graph, std::move(model), std::max(grown, file_bytes(graph)));
  }

 private:
  Result<std::unique_ptr<OpenVinoModel>> compiled(const ShardGraph& graph,
                                                  const OpenVinoCompile& wanted) {
    if (options_.keeps_compiled) return CompiledCache(*library_, wanted).get(graph);
    return library_->compile(graph.folder + "/" + graph.file().file.path, wanted);
  }

  std::unique_ptr<OpenVinoLibrary> library_;
  OpenVinoOptions options_;
  EngineTraits traits_{.name = "openvino"};
};

}  // namespace

Result<std::shared_ptr<Engine>> openvino_engine(const OpenVinoOptions& options) {
  MOEC_ASSIGN(std::unique_ptr<OpenVinoLibrary> library, load_openvino());
  MOEC_TRY(check_device(*library, options.device));
  return std::make_shared<OpenVinoEngine>(std::move(library), options);
}

}  // namespace moec
