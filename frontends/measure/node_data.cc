#include "frontends/measure/node_data.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/files/output_file.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/out_folder.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kLeast = "#ffffff";
constexpr const char* kLargest = "#d73027";

std::string overlay_path(const std::string& out, const std::string& file, const std::string& kind) {
  return (fs::path(out) / fs::path(file).replace_extension(fmt::format("{}.json", kind))).string();
}

ordered_json to_json(const NodeValue& value) {
  ordered_json json;
  const double* number = std::get_if<double>(&value.value);
  // JSON has no number for infinity, which is the error of a zero in the reference.
  if (number && !std::isfinite(*number)) return {{"value", "infinite"}, {"bgColor", kLargest}};
  if (number)
    json["value"] = *number;
  else
    json["value"] = std::get<std::string>(value.value);
  if (!value.color.empty()) json["bgColor"] = value.color;
  return json;
}

ordered_json to_json(const NodeOverlay& overlay, const NodeData& graph) {
  ordered_json results = ordered_json::object();
  bool interpolated = false;
  for (const NodeValue& value : graph.values) {
    results[value.node] = to_json(value);
    interpolated |= value.color.empty();
  }
  ordered_json json = {{"name", overlay.title}, {"results", std::move(results)}};
  if (interpolated)
    json["gradient"] = {{{"stop", 0}, {"bgColor", kLeast}}, {{"stop", 1}, {"bgColor", kLargest}}};
  else
    // Counts of each text instead of a bar; the viewer supports it for texts only.
    json["showExpandedSummaryOnGroupNode"] = true;
  return json;
}

}  // namespace

std::string viewer_graph(const manifest::Shard& shard, const manifest::Width& width) {
  return width.function.empty() ? shard.name : width.function;
}

Status check_node_data(const UserOutput& out, const std::string& folder,
                       const std::vector<std::string>& kinds) {
  if (out.path.empty()) return {};
  MOEC_ASSIGN(const Manifest manifest, read_manifest(folder));
  const ShardFormat format = manifest.build.format;
  if (format != ShardFormat::onnx && format != ShardFormat::tflite)
    return fail("node_data.format",
                fmt::format("Model Explorer cannot open graphs of format {}", enum_name(format)),
                fmt::format("omit {}, or export for a target with ONNX or TFLite files", out.flag),
                {.file = folder});
  for (const manifest::Shard& shard : manifest.shards)
    for (const manifest::Width& width : shard.widths)
      for (const std::string& kind : kinds)
        MOEC_TRY(check_user_output(
            {overlay_path(out.path, width.file.path, kind), out.flag, out.force}, folder));
  return {};
}

Status write_node_data(const std::string& out, const NodeOverlay& overlay) {
  // The graphs of a .tflite file share a file of node data, with an entry per graph.
  std::map<std::string, ordered_json> files;
  for (const NodeData& graph : overlay.graphs)
    files[graph.file][graph.graph] = to_json(overlay, graph);
  for (const auto& [file, json] : files) {
    const std::string path = overlay_path(out, file, overlay.kind);
    MOEC_TRY(create_folder(fs::path(path).parent_path().string()));
    MOEC_TRY(write_user_file(path, json.dump(1) + "\n"));
  }
  return {};
}

}  // namespace moec
