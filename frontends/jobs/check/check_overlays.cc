#include <fmt/format.h>

#include <map>

#include "frontends/jobs/check/check_json.h"

namespace moec {
namespace {

// Dark text is readable on all of them.
constexpr const char* kGreen = "#b7e1b0";
constexpr const char* kRed = "#f4a6a6";
constexpr const char* kGrey = "#d9d9d9";

NodeValue placement_of(const CheckReport& report, const CheckedShard& shard, const PlacedOp& op) {
  if (op.unit == report.target.unit)
    // A warning about the whole shard leaves the unit of all its ops open.
    return shard.doubts.empty() ? NodeValue{op.file_name, op.unit, kGreen}
                                : NodeValue{op.file_name, "undecided", kGrey};
  return {op.file_name, op.rule.empty() ? op.unit : fmt::format("{}: {}", op.unit, op.rule), kRed};
}

std::map<std::string, int64_t> weights_by_node(const PlacementReport& placement) {
  std::map<std::string, int64_t> bytes;
  for (const PlacedOp& op : placement.ops)
    if (op.weight_bytes > 0 && !op.node.empty()) bytes[op.node] += op.weight_bytes;
  return bytes;
}

}  // namespace

std::vector<NodeOverlay> check_overlays(const CheckReport& report) {
  NodeOverlay placement{
      kPlacementOverlay, fmt::format("predicted unit, target {}", report.target.name), {}};
  NodeOverlay weights{kWeightsOverlay, "bytes of weights", {}};
  for (const CheckedShard& shard : report.shards) {
    const manifest::Shard& exported = *report.manifest.find_shard(shard.name);
    for (const CheckedWidth& width : shard.widths) {
      const std::string graph = viewer_graph(exported, exported.widths[width.index]);
      NodeData units{width.file, graph, {}}, bytes{width.file, graph, {}};
      for (const PlacedOp& op : width.placement.ops)
        if (!op.file_name.empty()) units.values.push_back(placement_of(report, shard, op));
      for (const auto& [node, count] : weights_by_node(width.placement))
        bytes.values.push_back({node, static_cast<double>(count), ""});
      placement.graphs.push_back(std::move(units));
      weights.graphs.push_back(std::move(bytes));
    }
  }
  return {std::move(placement), std::move(weights)};
}

}  // namespace moec
