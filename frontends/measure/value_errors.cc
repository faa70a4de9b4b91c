#include "frontends/measure/value_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/formats/read_shard.h"
#include "backends/manifest/manifest_file.h"

namespace moec {
namespace {

// Returns the labels of an op's results, and the output ports that they leave the graph by.
std::vector<std::string> names_of_results(const Shard& shard, const Op& op) {
  std::vector<std::string> names;
  for (const ValueId result : op.results) {
    names.push_back(shard.label(result));
    for (const Output& output : shard.outputs)
      if (output.value == result) names.push_back(output.name);
  }
  return names;
}

double error_of(const Comparison& comparison) {
  // relative_l2 excludes such elements.
  return comparison.nonfinite > 0 ? std::numeric_limits<double>::infinity()
                                  : comparison.relative_l2;
}

// Returns the largest error of an op's results; nullopt if none of them was compared.
std::optional<double> error_of(const Shard& shard, const Op& op,
                               const std::map<std::string, Comparer, std::less<>>& values) {
  std::optional<double> largest;
  for (const std::string& name : names_of_results(shard, op))
    if (const auto value = values.find(name); value != values.end())
      largest = std::max(largest.value_or(0), error_of(value->second.result()));
  return largest;
}

}  // namespace

void ValueErrors::add(const manifest::Width& width, std::string_view label,
                      std::span<const float> found, std::span<const float> wanted) {
  Comparer& comparer = graphs_[{width.file.path, width.function}][std::string(label)];
  std::vector<float> kept_found, kept_wanted;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isinf(found[i]) && found[i] == wanted[i]) continue;
    kept_found.push_back(found[i]);
    kept_wanted.push_back(wanted[i]);
  }
  comparer.add(kept_found, kept_wanted);
}

Result<NodeOverlay> ValueErrors::overlay(const std::string& folder,
                                         const std::string& title) const {
  MOEC_ASSIGN(const Manifest manifest, read_manifest(folder));
  NodeOverlay overlay{kErrorOverlay, title, {}};
  for (const manifest::Shard& shard : manifest.shards)
    for (const manifest::Width& width : shard.widths) {
      const auto errors = graphs_.find({width.file.path, width.function});
      if (errors == graphs_.end()) continue;
      MOEC_ASSIGN(const LoadedShard file, read_shard(manifest, folder, width));
      const Shard& body = file.shard;
      NodeData graph{width.file.path, viewer_graph(shard, width), {}};
      for (const OpId id : op_ids(body)) {
        const auto error = error_of(body, body.ops[id], errors->second);
        // Ops that are part of another node have no name.
        if (error && !file.nodes[id].empty()) graph.values.push_back({file.nodes[id], *error, ""});
      }
      overlay.graphs.push_back(std::move(graph));
    }
  return overlay;
}

Status write_errors(const UserOutput& out, const ValueErrors& errors, const std::string& folder,
                    const std::string& title) {
  if (out.path.empty()) return {};
  if (errors.empty())
    return fail("node_data.empty", "no value inside the shards was compared",
                "pass a text that fills a token width, and exports with the same cuts",
                {.file = folder});
  MOEC_ASSIGN(const NodeOverlay overlay, errors.overlay(folder, title));
  return write_node_data(out.path, overlay);
}

}  // namespace moec
