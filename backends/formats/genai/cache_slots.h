// Caches and states in the slots that onnxruntime-genai carries from step to step:
//   past_key_values.N.key, .value   [1, heads, P, size], of one size per layer
//   past_key_values.N.conv_state    [1, channels, tokens]
//   past_key_values.N.recurrent_state   rank 4; a layer with one of these two states needs both
// and the same names with `present` instead of `past_key_values` for their new contents.
//
// Keys and values of different sizes share both slots by halves of their concatenation along the
// last axis. Values that are the last channels of the keys need no space.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/formats/genai/graph_nodes.h"
#include "backends/formats/genai/model_file.h"
#include "backends/manifest/manifest.h"

namespace moec {

class CacheSlots {
 public:
  // `has_fixed_rows`: P is the rows of the manifest's caches; otherwise P is symbolic and grows.
  CacheSlots(const Manifest& manifest, const std::set<int64_t>& values_in_keys,
             onnx::GraphProto& graph, GraphNodes& nodes, bool has_fixed_rows = false)
      : manifest_(manifest),
        values_in_keys_(values_in_keys),
        graph_(graph),
        nodes_(nodes),
        has_fixed_rows_(has_fixed_rows) {}

  // Declares the slots of a layer's cache (k_cache, v_cache), history or recurrent state, and
  // returns the value that a shard reads: keys or values [1, heads, P, size], a history [tokens,
  // channels], or a state in the manifest's sizes. `dtype` is the shard's element type.
  std::string past(SourceKind source, int64_t layer, DType dtype);

  // The name of the value that the decoder must define as the new contents, in the same form.
  // Caches include the new rows.
  std::string next(SinkKind sink, int64_t layer) const;

  // The manifest's entry of a layer, which must have one.
  const manifest::Cache& cache_of(int64_t layer) const;

  // Adds the outputs of the layer's slots. All values of next() must be defined.
  void finish(int64_t layer);

 private:
  struct Slots {
    bool cache = false, history = false, state = false;  // declared
    DType dtype = DType::f32, state_dtype = DType::f32;
  };
  bool is_direct(const manifest::Cache& cache) const;
  bool is_packed_whole(int64_t layer) const { return values_in_keys_.contains(layer); }
  int64_t slot_size(int64_t layer) const;
  std::vector<PortSize> slot_sizes(const manifest::Cache& cache, const std::string& rows) const;
  void declare_cache(int64_t layer, DType dtype);
  void declare_memory(int64_t layer, DType dtype);
  void finish_cache(int64_t layer);
  void finish_memory(int64_t layer, const Slots& slots);

  const Manifest& manifest_;
  const std::set<int64_t>& values_in_keys_;
  onnx::GraphProto& graph_;
  GraphNodes& nodes_;
  bool has_fixed_rows_;
  std::map<int64_t, Slots> slots_;  // by layer
};

}  // namespace moec
