// The front of a decoder graph: turns the inputs of onnxruntime-genai into those of shards.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/formats/genai/graph_nodes.h"
#include "backends/manifest/manifest.h"

namespace moec {

// Declares the inputs input_ids [1, T], attention_mask [1, P + T] and, if a shard depends on
// positions, position_ids [1, T], and adds nodes on demand. Each value is added once.
class DecoderInputs {
 public:
  // Defines kTokensSize and kPastSize (symbolic_graph.h) and the edge kEmbedEdge.
  DecoderInputs(const Manifest& manifest, onnx::GraphProto& graph, GraphNodes& nodes);

  // Returns the value of a shard's input that depends only on the tokens and their positions.
  std::string value(const InputBinding& binding);

  // Defines kLastKey and kKeyCount (fused_attention.h). `past_keys` is a cache [1, heads, P, size].
  // The graph fails if the attention mask does not have P + T columns: the op would read past the
  // end of the cache.
  void count_keys(const std::string& past_keys);

 private:
  void declare(const std::string& name, const std::string& size);
  const std::string& positions();
  std::string rope_columns(int64_t begin, int64_t count, const std::string& name);
  std::string make(const InputBinding& binding, const std::string& name);
  std::string mask(const InputBinding& binding, const std::string& name);

  const Manifest& manifest_;
  onnx::GraphProto& graph_;
  GraphNodes& nodes_;
  std::string positions_, rope_rows_;  // empty: not added
  bool counts_keys_ = false;
  std::map<std::string, std::string> known_;  // by name
};

}  // namespace moec
