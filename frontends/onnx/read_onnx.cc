#include "frontends/onnx/read_onnx.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "frontends/onnx/graph_reader.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kOpset = 17;
constexpr int64_t kIrVersion = 8;

Status check_model(const onnx::ModelProto& model) {
  if (model.ir_version() != kIrVersion)
    return fail("onnx.ir_version",
                fmt::format("IR version {} is not read, only {}", model.ir_version(), kIrVersion),
                "export the model again");
  for (const auto& opset : model.opset_import())
    if (!opset.domain().empty() && opset.domain() != "ai.onnx")
      return fail("onnx.opset", fmt::format("domain \"{}\" is not read", opset.domain()),
                  "use ops of the default domain only");
  if (model.opset_import_size() != 1 || model.opset_import(0).version() != kOpset)
    return fail("onnx.opset", fmt::format("the model must import opset {} alone", kOpset),
                "convert the model to that opset");
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

Result<std::string> load(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    return fail("onnx.open", fmt::format("{} is missing or is not a regular file", path),
                "give the path of an .onnx file", {.file = path});
  const uint64_t size = fs::file_size(path, error);
  if (error || size > static_cast<uint64_t>(std::numeric_limits<int>::max()))
    return fail("onnx.too_large", "an ONNX graph file has less than 2 GiB", "split the model",
                {.file = path});
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size)))
    return fail("onnx.open", fmt::format("{} cannot be read", path), "check its permissions",
                {.file = path});
  return bytes;
}

}  // namespace

Result<LoadedShard> parse_onnx(std::span<const std::byte> bytes, const std::string& path) {
  return with_file(read_model(bytes, path), path);
}

Result<LoadedShard> read_onnx(const std::string& path) {
  MOEC_ASSIGN(const std::string bytes, load(path));
  return parse_onnx(std::as_bytes(std::span(bytes)), path);
}

}  // namespace moec
