#include "backends/formats/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "backends/formats/coreml/mil_names.h"
#include "backends/formats/coreml/read_coreml.h"
#include "backends/formats/onnx/check_onnx.h"
#include "backends/formats/onnx/read_onnx.h"
#include "backends/formats/onnx/write_onnx_codes.h"
#include "backends/formats/tflite/emit_tflite.h"
#include "backends/formats/tflite/path_names.h"
#include "backends/formats/tflite/read_tflite.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// ---- ONNX --------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 2> kOnnxSuffixes = {".onnx", ".data"};
constexpr std::array<std::string_view, 1> kOnnxGraphs = {".onnx"};

std::vector<std::string> names_for_onnx(const std::string& stem, std::span<const GraphKey> keys,
                                        const FormatOptions&) {
  return onnx_file_names(stem, keys);
}

Result<EmitReport> emit_as_onnx(std::span<const ShardWidth> widths, const WeightReader& weights,
                                const EmitOptions& emit, const FormatOptions& options) {
  return emit_onnx(widths, weights, emit, options.onnx);
}

Result<std::vector<WeightView>> views_for_onnx(std::span<const ShardWidth> widths,
                                               const FormatOptions& options) {
  return onnx_weight_views(widths, options.experts);
}

// An ONNX file holds one graph, so the selection is unused.
Result<LoadedShard> read_from_onnx(const std::string& path, const GraphSelection&) {
  return read_onnx(path);
}

// ---- Core ML -----------------------------------------------------------------------------------

constexpr std::array<std::string_view, 1> kCoremlSuffixes = {".mlpackage"};
constexpr std::array<std::string_view, 2> kCoremlGraphs = {".mlpackage", ".mlmodel"};

std::vector<std::string> names_for_coreml(const std::string& stem, std::span<const GraphKey> keys,
                                          const FormatOptions& options) {
  return coreml_file_names(stem, keys, options.coreml.packaging);
}

Result<EmitReport> emit_as_coreml(std::span<const ShardWidth> widths, const WeightReader& weights,
                                  const EmitOptions& emit, const FormatOptions& options) {
  return emit_coreml(widths, weights, emit, options.coreml);
}

Result<std::vector<WeightView>> views_for_coreml(std::span<const ShardWidth> widths,
                                                 const FormatOptions& options) {
  return coreml_weight_views(widths, options.coreml, options.experts);
}

Result<LoadedShard> read_from_coreml(const std::string& path, const GraphSelection& graph) {
  return read_coreml(path, {.function = graph.function, .tokens = graph.tokens});
}

// ---- GGUF --------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 1> kGgufSuffixes = {".gguf"};

// ---- TFLite ------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 1> kTfliteSuffixes = {".tflite"};

std::vector<std::string> names_for_tflite(const std::string& stem, std::span<const GraphKey>,
                                          const FormatOptions&) {
  return tflite_file_names(stem);
}

Result<EmitReport> emit_as_tflite(std::span<const ShardWidth> widths, const WeightReader& weights,
                                  const EmitOptions& emit, const FormatOptions&) {
  return emit_tflite(widths, weights, emit);
}

Result<std::vector<WeightView>> views_for_tflite(std::span<const ShardWidth> widths,
                                                 const FormatOptions& options) {
  return tflite_weight_views(widths, options.experts);
}

Result<LoadedShard> read_from_tflite(const std::string& path, const GraphSelection& graph) {
  return read_tflite(path, graph.function);
}

// ---- The table ---------------------------------------------------------------------------------

// format_of() indexes the table, so the rows must be in the order of ShardFormat.
const std::array kFormats = {
    Format{.id = ShardFormat::onnx,
           .about = "an .onnx file",
           .suffixes = kOnnxSuffixes,
           .graph_suffixes = kOnnxGraphs,
           .file_names = names_for_onnx,
           .emit = emit_as_onnx,
           .weight_views = views_for_onnx,
           .code_form = onnx_code_form,
           .read = read_from_onnx,
           .check = check_onnx_file},
    Format{.id = ShardFormat::coreml,
           .about = "an .mlpackage",
           .suffixes = kCoremlSuffixes,
           .graph_suffixes = kCoremlGraphs,
           .graph_is_folder = true,
           .limits = kCoremlLimits,
           .file_names = names_for_coreml,
           .emit = emit_as_coreml,
           .weight_views = views_for_coreml,
           .read = read_from_coreml},
    Format{.id = ShardFormat::gguf,
           .about = "a .gguf file",
           .shape = FormatShape::weights_only,
           .suffixes = kGgufSuffixes},
    Format{.id = ShardFormat::tflite,
           .about = "a .tflite file",
           .suffixes = kTfliteSuffixes,
           .graph_suffixes = kTfliteSuffixes,
           .file_names = names_for_tflite,
           .emit = emit_as_tflite,
           .weight_views = views_for_tflite,
           .read = read_from_tflite},
};
static_assert(kFormats.size() == enum_count<ShardFormat>, "one row per format");

}  // namespace

std::span<const Format> all_formats() { return kFormats; }

const Format& format_of(ShardFormat id) { return at(kFormats, id); }

// The comparison of suffixes is case-sensitive.
const Format* format_of_path(const std::string& path) {
  const std::string suffix = std::filesystem::path(path).extension().string();
  for (const Format& format : kFormats)
    for (const std::string_view known : format.graph_suffixes)
      if (suffix == known) return &format;
  return nullptr;
}

std::vector<std::string_view> shard_suffixes() {
  std::vector<std::string_view> suffixes;
  for (const Format& format : kFormats)
    suffixes.insert(suffixes.end(), format.suffixes.begin(), format.suffixes.end());
  return suffixes;
}

Status require_graphs(const Format& format, const std::string& path) {
  if (format.shape == FormatShape::graphs) return {};
  return fail("format.weights_only",
              fmt::format("files of format {} hold weights but no graph", enum_name(format.id)),
              "export the model for a target whose format holds graphs", {.file = path});
}

}  // namespace moec
