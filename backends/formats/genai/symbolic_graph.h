// Derives the graph for any number of tokens from static graphs of one shard.
//
// The IR has fixed sizes, and passes fold them. Static graphs of the same shard at several points
// must have the same nodes; sizes in them are functions of the point (Extent):
//   Reshape   0 where a size is that of the input, one -1, otherwise a shape tensor
//   Slice     positions from the front, from the end, or to the end
//   Expand    a shape tensor
// Shape tensors are made of the values kTokensSize and kPastSize, which the surrounding graph must
// define as i64 vectors of one element. Any other difference between the graphs is an error.
#pragma once

#include <span>
#include <string>

#include "backends/formats/genai/extent.h"
#include "ir/base/diagnostics.h"

namespace onnx {
class GraphProto;
}

namespace moec {

// The prefix of sizes: values with it are equal in every graph of a decoder.
inline constexpr std::string_view kSizePrefix = "size.";
inline constexpr const char* kTokensSize = "size.tokens";
inline constexpr const char* kPastSize = "size.past";

// `samples` are parallel to `points` (fit_extent()), without external differences: their weights
// have the same positions in the data file. The result has no types of inner values. Error
// genai.structure: the samples differ in more than sizes; it names the node or the value.
Status symbolic_graph(std::span<const GraphPoint> points, std::span<const onnx::GraphProto> samples,
                      onnx::GraphProto& graph);

}  // namespace moec
