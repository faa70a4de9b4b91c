#include "backends/openvino/openvino_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "backends/openvino/compiled_cache.h"
#include "backends/openvino/load_module.h"
#include "backends/openvino/openvino_executable.h"
#include "ir/base/process_memory.h"

namespace moec {
namespace {

// "GPU" stands for the first of several, "GPU.0".
bool has_device(const std::vector<std::string>& devices, const std::string& device) {
  return std::any_of(devices.begin(), devices.end(), [&](const std::string& present) {
    return present == device || present == device + ".0";
  });
}

Status check_device(const OpenVinoLibrary& library, const std::string& device) {
  const std::vector<std::string> devices = library.devices();
  if (has_device(devices, device)) return {};
  return fail("engine.device",
              fmt::format("OpenVINO finds no device {} on this machine; it finds {}", device,
                          devices.empty() ? "none" : fmt::format("{}", fmt::join(devices, ", "))),
              "give --device one of these, or install the driver of the device");
}

const char* precision_name(Precision precision) {
  return precision == Precision::f16 ? "f16" : "f32";
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
                  fmt::format("OpenVINO runs ONNX files; the export holds those of format {}",
                              enum_name(manifest.build.format)),
                  "export for target onnx, or run without --engine");
    const std::vector<std::string> precisions = library_->precisions(options_.device);
    if (std::find(precisions.begin(), precisions.end(), precision_name(precision)) !=
        precisions.end())
      return {};
    return fail("engine.precision",
                fmt::format("device {} ({}) does not compute in {}, but in {}", options_.device,
                            library_->full_name(options_.device), precision_name(precision),
                            fmt::join(precisions, ", ")),
                "give --precision one of these; rounding to f16 after every op needs the reference "
                "executor: run without --engine");
  }

  Result<std::unique_ptr<Executable>> compile(const ShardGraph& graph,
                                              const GraphOptions& options) override {
    const uint64_t before = process_memory().resident;
    const OpenVinoCompile wanted{options_.device, precision_name(options.precision),
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
  EngineTraits traits_{.name = "openvino", .keeps_widths = true};
};

}  // namespace

Result<std::shared_ptr<Engine>> openvino_engine(const OpenVinoOptions& options) {
  MOEC_ASSIGN(std::unique_ptr<OpenVinoLibrary> library, load_openvino());
  MOEC_TRY(check_device(*library, options.device));
  return std::make_shared<OpenVinoEngine>(std::move(library), options);
}

}  // namespace moec
