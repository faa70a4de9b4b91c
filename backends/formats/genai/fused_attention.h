// The attention that a part leaves open (ir/graph/attention_ports.h), as a node
// GroupQueryAttention of com.microsoft. The node masks later tokens by itself, limits windows, and
// returns caches that include the new rows.
//
// CPU kernels of onnxruntime 1.31 and 1.32 require a head size that is a multiple of 8. They agree
// with attention in f64 up to rounding (2e-7 in f32, 1e-3 in f16) with windows, sinks and masks.
#pragma once

#include <cstdint>
#include <string>

namespace onnx {
class GraphProto;
}

namespace moec {

// i32 values that the surrounding graph must define if a part has such a node: the position of the
// last key [1], and the number of keys [].
inline constexpr const char* kLastKey = "size.last_key";
inline constexpr const char* kKeyCount = "size.keys";

struct FusedAttention {
  std::string label;  // ends the names of the attention's ports
  int64_t kv_heads = 0, head_dim = 0;
  int64_t window = 0;   // maximum keys per query; 0: unlimited
  bool masked = false;  // add the mask, whose contents are more than the window
};

// True if the part leaves attention with this label open.
bool leaves_open(const onnx::GraphProto& part, const std::string& label);

// The name of the part's input whose copy is the mask of open attention.
std::string mask_of(const onnx::GraphProto& part, const std::string& label);

// Results of the node: all keys or values, the new rows included.
std::string all_keys(const std::string& label);
std::string all_values(const std::string& label);

// Adds the node, between the nodes that it depends on and those that depend on it.
void insert_attention(const FusedAttention& attention, onnx::GraphProto& part);

}  // namespace moec
