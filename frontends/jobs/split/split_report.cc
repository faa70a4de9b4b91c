#include "frontends/jobs/split/split_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/base/json_output.h"
#include "ir/base/report_json.h"

namespace moec {

NodeRouting SplitReport::routing_of(const NodePlan& node) const {
  if (node.node.count == experts) return NodeRouting::whole;
  if (!node.kept_share.empty()) return NodeRouting::compensated;
  constexpr NodeRouting kBy[] = {NodeRouting::masked, NodeRouting::inflated, NodeRouting::unknown};
  return kBy[static_cast<size_t>(routing)];
}

using nlohmann::ordered_json;

namespace {

ordered_json files_json(const SplitReport& report, const NodePlan& node) {
  ordered_json files = ordered_json::array();
  for (const SplitFile* file : {&node.header, &report.plan.trunk, &node.experts}) {
    const std::string path = fmt::format("{}/{}", node.node.name, file->name);
    ordered_json json = {{"path", path}, {"bytes", file->layout.file_bytes}};
    const auto digest = report.written.digests.find(path);
    if (digest != report.written.digests.end()) json["xxh3"] = digest->second;
    files.push_back(std::move(json));
  }
  return files;
}

ordered_json node_json(const SplitReport& report, const NodePlan& node) {
  ordered_json json = {{"name", node.node.name},
                       {"experts", to_string(node.node.experts)},
                       {"experts_per_layer", node.node.count},
                       {"routing", enum_name(report.routing_of(node))},
                       {"bytes", report.plan.bytes_of(node)},
                       {"files", files_json(report, node)}};
  if (node.node.groups > 1) json["groups"] = node.node.groups;
  for (const auto& [layer, share] : node.kept_share)
    json["kept_share"].push_back({{"layer", layer}, {"share", share}});
  return json;
}

ordered_json nodes_json(const SplitReport& report) {
  ordered_json nodes = ordered_json::array();
  for (const NodePlan& node : report.plan.nodes) nodes.push_back(node_json(report, node));
  return nodes;
}

// What the report and the index have in common.
ordered_json common_json(const SplitReport& report) {
  return {{"architecture", report.arch},
          {"source_digest", report.digest},
          {"experts", report.experts},
          {"trunk_bytes", report.plan.trunk.layout.file_bytes},
          {"unique_bytes", report.plan.unique_bytes()},
          {"nodes", nodes_json(report)}};
}

}  // namespace

ordered_json split_json(const SplitReport& report, double seconds) {
  ordered_json fields = {{"source", report.source},
                         {"out", report.out},
                         {"dry_run", report.dry_run},
                         {"seconds", seconds}};
  if (!report.dry_run) fields["trunk_linked"] = report.written.trunk_linked;
  fields.update(common_json(report));
  return report_json(true, fields, report.notes);
}

std::string split_index_text(const SplitReport& report, bool finished) {
  ordered_json index = {{"format", "moec.split"}, {"version", 1}, {"finished", finished}};
  index.update(common_json(report));
  return json_text(index) + "\n";
}

}  // namespace moec
