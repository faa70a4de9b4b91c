// The part of a decoder graph that computes one shard of an export.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/emit/emit.h"
#include "backends/formats/genai/extent.h"
#include "backends/formats/onnx/onnx_options.h"

namespace moec {

// One shard, compiled at several points. With a single point, the part is a static graph, which the
// decoder runs once per token.
struct PartSamples {
  std::vector<GraphPoint> points;
  std::vector<const Shard*> shards;  // in form `placed`, parallel to `points`
};

// The data file of a shard, as emit_onnx() writes it.
struct PartData {
  std::string path;                    // relative to the folder of the decoder
  std::span<const ShardWidth> widths;  // as passed to emit_onnx()
  ExpertLayout experts;                // as in EmitOptions
};

// The points of shards that depend on the number of tokens. They are primes, so that they differ
// from other sizes of shards.
inline constexpr GraphPoint kSamplePoints[] = {{37, 101}, {41, 101}, {37, 113}, {53, 113}};

// Returns a serialized onnx.GraphProto whose ports have the names of the shard's ports and whose
// weights are external data in `data`. Errors: genai.structure (symbolic_graph.h), and
// genai.weights if a sample has a weight that the data file lacks; those of check_emittable().
Result<std::string> decoder_part(const PartSamples& samples, const PartData& data,
                                 const OnnxOptions& options);

}  // namespace moec
