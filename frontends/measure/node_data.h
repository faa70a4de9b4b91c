// Node data for Model Explorer: values that it shows on the nodes of a graph file. Source of the
// fields: model_explorer.node_data_builder of ai-edge-model-explorer 0.1.34.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"
#include "ir/base/output_apart.h"

namespace moec {

// The value of a node, by its key in the viewer: the name of an ONNX node, or the first output
// tensor of an op in a .tflite file.
struct NodeValue {
  std::string node;
  std::variant<double, std::string> value;
  std::string color;  // CSS background; empty: interpolated from white (least) to red (largest)
};

// Values for the nodes of one graph.
struct NodeData {
  std::string file;   // of the graph, relative to the export
  std::string graph;  // id in the viewer: an ONNX graph's name, or a signature in a .tflite file
  std::vector<NodeValue> values;
};

// NodeOverlay::kind.
inline constexpr const char* kPlacementOverlay = "placement";
inline constexpr const char* kWeightsOverlay = "weights";
inline constexpr const char* kErrorOverlay = "error";

// Values of one kind, for any number of graphs.
struct NodeOverlay {
  std::string kind;   // part of the names of the files
  std::string title;  // shown by the viewer
  std::vector<NodeData> graphs;
};

// Returns the id of a graph in the viewer. `shard`: the shard of the width.
std::string viewer_graph(const manifest::Shard& shard, const manifest::Width& width);

// Checks that `out` can receive overlays of these kinds for the export in `folder`; an empty path
// passes. Errors: node_data.format (Model Explorer cannot open the export's files), those of
// check_user_output() and read_manifest().
Status check_node_data(const UserOutput& out, const std::string& folder,
                       const std::vector<std::string>& kinds);

// Writes a file per graph file: `out`/moe/L00.t1.KIND.json for moe/L00.t1.onnx.
Status write_node_data(const std::string& out, const NodeOverlay& overlay);

}  // namespace moec
