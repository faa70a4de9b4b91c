#include "backends/formats/genai/decoder_part.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <set>

#include "backends/emit/data_layout.h"
#include "backends/emit/message_bytes.h"
#include "backends/formats/genai/fused_norms.h"
#include "backends/formats/genai/symbolic_graph.h"
#include "backends/formats/onnx/emit_onnx.h"
#include "backends/formats/onnx/graph_writer.h"

namespace moec {
namespace {

std::set<std::string> keys_of_entries(const DataLayout& layout) {
  std::set<std::string> keys;
  for (const DataLayout::Entry& entry : layout.entries()) keys.insert(entry.key);
  return keys;
}

// Widths may differ in their weights, because passes fold constants of known sizes.
Status check_contains(const DataLayout& layout, const Shard& sample) {
  DataLayout own(kOnnxData);
  collect_weights(sample, {}, own);
  const std::set<std::string> keys = keys_of_entries(layout);
  for (const DataLayout::Entry& entry : own.entries())
    if (!keys.contains(entry.key))
      return fail("genai.weights",
                  fmt::format("the weight {} of the decoder is not among those of the token widths",
                              entry.name),
                  "pass --tokens with a width above 1", {.shard = sample.name});
  return {};
}

}  // namespace

Result<std::string> decoder_part(const PartSamples& samples, const PartData& data,
                                 const OnnxOptions& options) {
  DataLayout layout(kOnnxData);
  for (const ShardWidth& width : data.widths) collect_weights(*width.shard, data.experts, layout);
  const std::optional<MoeLayers> no_owners;
  std::vector<onnx::GraphProto> graphs;
  for (const Shard* shard : samples.shards) {
    MOEC_TRY(check_emittable(*shard));
    MOEC_TRY(check_contains(layout, *shard));
    onnx::ModelProto model;
    write_model(*shard, layout, data.path, {MOEC_VERSION, {}, no_owners, options}, model);
    graphs.push_back(std::move(*model.mutable_graph()));
  }
  onnx::GraphProto graph;
  MOEC_TRY(symbolic_graph(samples.points, graphs, graph));
  fuse_norms(graph);
  return message_bytes(graph);
}

}  // namespace moec
