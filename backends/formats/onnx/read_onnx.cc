#include "backends/formats/onnx/read_onnx.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <limits>

#include "backends/formats/onnx/graph_reader.h"
#include "backends/formats/onnx/onnx_names.h"
#include "backends/formats/onnx/read_onnx_codes.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

// The default domain, and perhaps that of onnxruntime.
Status check_opsets(const onnx::ModelProto& model) {
  int defaults = 0;
  for (const auto& opset : model.opset_import()) {
    if (opset.domain() == kMicrosoftDomain && opset.version() == 1) continue;
    if (!opset.domain().empty() && opset.domain() != "ai.onnx")
      return fail(
          "onnx.opset",
          fmt::format("version {} of domain \"{}\" is not read", opset.version(), opset.domain()),
          "use ops of the default domain only");
    ++defaults;
    if (opset.version() != kOnnxOpset) defaults = 2;
  }
  if (defaults == 1) return {};
  return fail("onnx.opset", fmt::format("the model must import opset {} alone", kOnnxOpset),
              "convert the model to that opset");
}

Status check_model(const onnx::ModelProto& model) {
  if (model.ir_version() != kOnnxIrVersion)
    return fail(
        "onnx.ir_version",
        fmt::format("IR version {} is not read, only {}", model.ir_version(), kOnnxIrVersion),
        "export the model again");
  MOEC_TRY(check_opsets(model));
  const auto& graph = model.graph();
  if (model.functions_size() > 0 || model.training_info_size() > 0 ||
      graph.sparse_initializer_size() > 0)
    return fail("onnx.unsupported", "functions, training and sparse tensors are not read",
                "export the model again");
  return {};
}

Result<LoadedShard> read_model(std::span<const std::byte> bytes, const std::string& path) {
  onnx::ModelProto model;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return fail("onnx.too_large", "an ONNX graph file has less than 2 GiB", "split the model");
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph())
    return fail("onnx.parse", "not an ONNX model, or a damaged one", "export the model again");
  MOEC_TRY(check_model(model));
  MOEC_ASSIGN(const OnnxMetadata metadata, read_metadata(model));
  return read_graph(model.graph(), metadata, fs::path(path).parent_path().string());
}

// Adds the file to findings, which come from readers that have no path.
Result<LoadedShard> with_file(Result<LoadedShard> result, const std::string& path) {
  if (!result)
    for (Diagnostic& finding : result.error())
      if (finding.place.file.empty()) finding.place.file = path;
  return result;
}

Result<std::string> read_model_bytes(const std::string& path) {
  const auto file = RegularFile::open(path);
  if (!file)
    return fail("onnx.open", file.error().front().cause, "give the path of an .onnx file",
                {.file = path});
  if (file->size() > static_cast<uint64_t>(std::numeric_limits<int>::max()))
    return fail("onnx.too_large", "an ONNX graph file has less than 2 GiB", "split the model",
                {.file = path});
  return file->read(0, file->size());
}

}  // namespace

Result<LoadedShard> parse_onnx(std::span<const std::byte> bytes, const std::string& path) {
  return with_file(read_model(bytes, path), path);
}

Result<LoadedShard> read_onnx(const std::string& path) {
  MOEC_ASSIGN(const std::string bytes, read_model_bytes(path));
  return parse_onnx(std::as_bytes(std::span(bytes)), path);
}

}  // namespace moec
