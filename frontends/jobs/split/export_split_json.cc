#include "frontends/jobs/split/export_split_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backends/manifest/file_names.h"
#include "ir/base/json_output.h"
#include "ir/base/report_json.h"

namespace moec {

using nlohmann::ordered_json;

namespace {

ordered_json files_json(const ExportNode& node) {
  ordered_json files = ordered_json::array();
  for (const auto* list : {&node.trunk, &node.of_experts})
    for (const manifest::FileRef& file : *list)
      files.push_back(
          {{"path", node.name + "/" + file.path}, {"bytes", file.bytes}, {"xxh3", file.digest}});
  for (const std::string_view name : {kManifestJson, kManifestBin})
    files.push_back({{"path", fmt::format("{}/{}", node.name, name)}});
  return files;
}

ordered_json node_json(const ExportNode& node) {
  const manifest::Node& place = *node.manifest.node;
  return {{"name", node.name},
          {"stage", place.stage},
          {"layers", fmt::format("{}-{}", place.first_layer, node.manifest.end_layer() - 1)},
          {"experts", to_string(node.experts)},
          {"expert_bytes", node.expert_bytes()},
          {"manifest_bytes", node.manifest_bytes},
          {"bytes", node.bytes()},
          {"files", files_json(node)}};
}

ordered_json split_fields(const ExportSplit& split) {
  ordered_json nodes = ordered_json::array();
  for (const ExportNode& node : split.nodes) nodes.push_back(node_json(node));
  return {{"family", split.family},
          {"experts", split.experts},
          {"trunk_bytes", split.trunk_bytes()},
          {"unique_bytes", split.unique_bytes()},
          {"nodes", nodes}};
}

}  // namespace

ordered_json split_json(const ExportSplit& split, double seconds) {
  ordered_json fields = {{"source", split.source},
                         {"out", split.out},
                         {"dry_run", split.dry_run},
                         {"seconds", seconds}};
  if (!split.dry_run) fields["linked"] = split.linked;
  fields.update(split_fields(split));
  return report_json(true, fields, split.notes);
}

std::string export_index_text(const ExportSplit& split, bool finished) {
  ordered_json index = {{"format", "moec.split"}, {"version", 1}, {"finished", finished}};
  index.update(split_fields(split));
  return json_text(index) + "\n";
}

}  // namespace moec
