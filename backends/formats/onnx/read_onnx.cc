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

// Accepts the default domain and, optionally, onnxruntime's.
Status check_opsets(const onnx::ModelProto& model) {
  int defaults = 0;
  for (const auto& opset : model.opset_import()) {
    if (opset.domain() == kMicrosoftDomain && opset.version() == 1) continue;
    if (!opset.domain().empty() && opset.domain() != "ai.onnx")
      return fail("onnx.opset",
                  fmt::format("version {} of domain \"{}\" is unsupported", opset.version(),
                              opset.domain()),
                  "use only ops of the default domain");
    ++defaults;
    // Any value other than 1 makes the check below fail.
    if (opset.version() != kOnnxOpset) defaults = 2;
  }
  if (defaults == 1) return {};
  return fail("onnx.opset",
              fmt::format("the model must import only opset {} of the default domain", kOnnxOpset),
              "convert the model to this opset");
}

// Versions are compared exactly: other opsets define some ops with other inputs and attributes.
Status check_model(const onnx::ModelProto& model) {
  if (model.ir_version() != kOnnxIrVersion)
    return fail("onnx.ir_version",
                fmt::format("IR version {} is unsupported, expected {}", model.ir_version(),
                            kOnnxIrVersion),
                "export the model again");
  MOEC_TRY(check_opsets(model));
  const auto& graph = model.graph();
  if (model.functions_size() > 0 || model.training_info_size() > 0 ||
      graph.sparse_initializer_size() > 0)
    return fail("onnx.unsupported", "functions, training info and sparse tensors are unsupported",
                "export the model again");
  return {};
}

Result<LoadedShard> read_model(std::span<const std::byte> bytes, const std::string& path) {
  onnx::ModelProto model;
  // ParseFromArray() has an int for the size. read_model_bytes() has checked the size of a file,
  // but parse_onnx() accepts any bytes.
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return fail("onnx.too_large", "the graph file is 2 GiB or larger",
                "store its weights as external data");
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph())
    return fail("onnx.parse", "the file is damaged or not an ONNX model", "export the model again");
  MOEC_TRY(check_model(model));
  GraphMetadata metadata;
  for (const auto& entry : model.metadata_props())
    MOEC_TRY(add_entry(entry.key(), entry.value(), {}, "onnx.metadata", metadata));
  return read_graph(model.graph(), metadata, fs::path(path).parent_path().string());
}

Result<std::string> read_model_bytes(const std::string& path) {
  const auto file = RegularFile::open(path);
  if (!file)
    return fail("onnx.open", file.error().front().cause, "pass the path of an .onnx file",
                {.file = path});
  if (file->size() > static_cast<uint64_t>(std::numeric_limits<int>::max()))
    return fail("onnx.too_large", "the graph file is 2 GiB or larger",
                "store its weights as external data", {.file = path});
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
