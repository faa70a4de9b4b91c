// Joins the parts of an export to one ONNX graph that onnxruntime-genai runs as a decoder
// (`model.type` "decoder"). README.md describes the graph.
#pragma once

#include <map>
#include <set>
#include <string>

#include "backends/manifest/manifest.h"

namespace moec {

// A result of decoder_part().
struct DecoderPart {
  std::string graph;
  bool per_token = false;  // a static graph for one token: run in a loop over the tokens
};

struct DecoderSource {
  const Manifest& manifest;                  // of the export; its shards may be absent
  std::map<std::string, DecoderPart> parts;  // by shard
  // Layers whose values are the last channels of their keys, as in the cache of latent attention.
  std::set<int64_t> values_in_keys;
};

// Returns a serialized onnx.ModelProto that reads the export's data files and tables from its own
// folder. Error emit.graph_too_large: above the limit of protobuf, 2^31 - 1 bytes.
Result<std::string> decoder_graph(const DecoderSource& source);

}  // namespace moec
