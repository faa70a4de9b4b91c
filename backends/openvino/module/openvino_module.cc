// The only file that includes OpenVINO's headers. It is built if CMake finds OpenVINO.
#include <algorithm>
#include <fstream>
#include <openvino/openvino.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "backends/openvino/openvino_api.h"

namespace moec {
namespace {

// Joins the lines of a message and collapses its spaces.
std::string in_a_line(const std::string& text) {
  std::string line;
  std::istringstream words(text);
  for (std::string word; words >> word;) line += line.empty() ? word : " " + word;
  return line;
}

tl::unexpected<Diagnostics> failure(const char* code, const std::string& what,
                                    const std::string& next, Place place = {}) {
  return fail(code, "OpenVINO: " + in_a_line(what), next, std::move(place));
}

// ---- Ports -------------------------------------------------------------------------------------

std::optional<DType> dtype_of(const ov::element::Type& type) {
  if (type == ov::element::f32) return DType::f32;
  if (type == ov::element::f16) return DType::f16;
  if (type == ov::element::bf16) return DType::bf16;
  if (type == ov::element::i64) return DType::i64;
  if (type == ov::element::i32) return DType::i32;
  if (type == ov::element::u8) return DType::u8;
  if (type == ov::element::boolean) return DType::boolean;
  return std::nullopt;
}

// Throws for a type or size that moec's files never have.
OpenVinoPort port_of(const ov::Output<const ov::Node>& output) {
  const auto dtype = dtype_of(output.get_element_type());
  OPENVINO_ASSERT(dtype, "a port has the type ", output.get_element_type());
  const auto& names = output.get_names();
  const ov::Shape& shape = output.get_shape();
  return {{names.begin(), names.end()}, {*dtype, std::vector<int64_t>(shape.begin(), shape.end())}};
}

std::vector<OpenVinoPort> ports_of(const std::vector<ov::Output<const ov::Node>>& outputs) {
  std::vector<OpenVinoPort> ports;
  for (const auto& output : outputs) ports.push_back(port_of(output));
  return ports;
}

// ---- Models ------------------------------------------------------------------------------------

class Model : public OpenVinoModel {
 public:
  // `blob` is the tensor that the model was loaded from, if any.
  explicit Model(ov::CompiledModel model, ov::Tensor blob = {})
      : blob_(std::move(blob)),
        model_(std::move(model)),
        request_(model_.create_infer_request()),
        inputs_(ports_of(model_.inputs())),
        outputs_(ports_of(model_.outputs())) {}

  std::vector<OpenVinoPort> inputs() const override { return inputs_; }
  std::vector<OpenVinoPort> outputs() const override { return outputs_; }

  Status run(const std::vector<const void*>& inputs) override {
    try {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const auto& port = model_.inputs()[i];
        request_.set_input_tensor(i, {port.get_element_type(), port.get_shape(), inputs[i]});
      }
      request_.infer();
      return {};
    } catch (const std::exception& error) {
      return failure("engine.run", error.what(), "run without --engine or with another --device");
    }
  }

  const void* output(size_t index) const override {
    return request_.get_output_tensor(index).data();
  }

  Status save(const std::string& path) const override {
    try {
      std::ofstream file(path, std::ios::binary | std::ios::trunc);
      model_.export_model(file);
      file.close();
      if (file) return {};
      return failure("engine.cache", "the file could not be written", "run without --engine-cache",
                     {.file = path});
    } catch (const std::exception& error) {
      return failure("engine.cache", error.what(), "run without --engine-cache", {.file = path});
    }
  }

 private:
  ov::Tensor blob_;                  // must outlive the model, which points into it
  mutable ov::CompiledModel model_;  // mutable because export_model() is not const
  mutable ov::InferRequest request_;
  std::vector<OpenVinoPort> inputs_, outputs_;
};

// Keeps f32 results in f32. Without these hints a CPU that supports bf16 computes in bf16, and
// quantizes the activations that it multiplies with codes.
ov::AnyMap config_of(const OpenVinoCompile& options) {
  const bool half = options.precision == "f16";
  ov::AnyMap config = {ov::hint::inference_precision(half ? ov::element::f16 : ov::element::f32),
                       ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY)};
  if (!half) {
    config.insert(ov::hint::execution_mode(ov::hint::ExecutionMode::ACCURACY));
    config.insert(ov::hint::dynamic_quantization_group_size(0));
  }
  return config;
}

// Returns the subset of properties that the device supports.
ov::AnyMap supported(const ov::Core& core, const std::string& device, const ov::AnyMap& config) {
  const auto known = core.get_property(device, ov::supported_properties);
  ov::AnyMap supported;
  for (const auto& [name, value] : config)
    if (std::find(known.begin(), known.end(), name) != known.end()) supported[name] = value;
  return supported;
}

void add_outputs(ov::Model& model, const std::vector<std::string>& watched) {
  const auto is_watched = [&](const std::string& name) {
    return std::any_of(watched.begin(), watched.end(),
                       [&](const std::string& ending) { return name.ends_with(ending); });
  };
  std::set<std::string> wanted;
  for (const auto& op : model.get_ordered_ops())
    for (const auto& output : op->outputs())
      for (const std::string& name : output.get_names())
        if (is_watched(name)) wanted.insert(name);
  for (const auto& output : model.outputs())
    for (const std::string& name : output.get_names()) wanted.erase(name);
  for (const std::string& name : wanted) model.add_output(name);
}

// ---- The library -------------------------------------------------------------------------------

class Library : public OpenVinoLibrary {
 public:
  // Weights are read instead of mapped: truncating a mapped file kills the process with a signal,
  // and rewriting it changes results silently.
  Library() { core_.set_property(ov::enable_mmap(false)); }

  std::string version() const override { return ov::get_openvino_version().buildNumber; }

  std::vector<std::string> devices() const override {
    try {
      return core_.get_available_devices();
    } catch (const std::exception&) {  // thrown if a driver does not respond
      return {};
    }
  }

  std::string full_name(const std::string& device) const override {
    try {
      return core_.get_property(device, ov::device::full_name);
    } catch (const std::exception&) {
      return device;
    }
  }

  std::vector<std::string> precisions(const std::string& device) const override {
    std::vector<std::string> precisions;
    try {
      for (const std::string& capability : core_.get_property(device, ov::device::capabilities)) {
        if (capability == ov::device::capability::FP32) precisions.emplace_back("f32");
        if (capability == ov::device::capability::FP16) precisions.emplace_back("f16");
      }
    } catch (const std::exception&) {
      return {};
    }
    return precisions;
  }

  Result<std::unique_ptr<OpenVinoModel>> compile(const std::string& path,
                                                 const OpenVinoCompile& options) override {
    try {
      const std::shared_ptr<ov::Model> model = core_.read_model(path);
      add_outputs(*model, options.watched);
      const ov::AnyMap config = supported(core_, options.device, config_of(options));
      return std::make_unique<Model>(core_.compile_model(model, options.device, config));
    } catch (const std::exception& error) {
      return failure("engine.compile", error.what(),
                     "run moec check on the export; if its files are intact, run without --engine "
                     "or export with other forms",
                     {.file = path});
    }
  }

  Result<std::unique_ptr<OpenVinoModel>> load(const std::string& path, size_t bytes,
                                              const OpenVinoCompile& options) override {
    try {
      const ov::Tensor file = ov::read_tensor_data(path, ov::element::u8, {-1}, 0, false);
      const ov::Tensor blob(file, {0}, {bytes});
      const ov::AnyMap config = supported(core_, options.device, config_of(options));
      return std::make_unique<Model>(core_.import_model(blob, options.device, config), file);
    } catch (const std::exception& error) {
      return failure("engine.cache", error.what(), "remove the file", {.file = path});
    }
  }

 private:
  ov::Core core_;
};

}  // namespace
}  // namespace moec

// Returns null if OpenVINO fails to start.
extern "C" __attribute__((visibility("default"))) moec::OpenVinoLibrary* moec_openvino_library() {
  try {
    return new moec::Library;
  } catch (const std::exception&) {
    return nullptr;
  }
}
