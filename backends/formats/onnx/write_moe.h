// Writes moe ops as onnxruntime's MoE or QMoE (domain com.microsoft, version 1), for its CPU
// provider.
//
//   matrices in codes   QMoE: reads the routing weights as router_probs, by which it chooses the
//                       top_k experts with a weight above 0, and as router_weights
//   plain matrices      MoE has no router_weights: of router_probs = max(log w, kNoExpert) it
//                       computes a softmax over the chosen experts, w / Σw. The graph multiplies
//                       its result by Σw; the result is 0 if Σw is 0, whatever the op computes.
//
// Both have activation_type "swiglu" with interleaved rows of gate and up; silu is its case alpha
// 1, beta 0 without a limit. Sources: the operator documents of onnxruntime 1.32
// (ContribOperators.md) and runs of both ops on its CPU provider, which refuses other forms of
// gates.
#pragma once

#include <string>

#include "backends/emit/graph_names.h"
#include "backends/formats/onnx/weight_tensors.h"

namespace moec {

inline constexpr const char *kMoeType = "MoE", *kCodedMoeType = "QMoE";
// The value of router_probs for an expert that was not chosen: its exp is 0 next to any log of a
// positive f32.
inline constexpr double kNoExpert = -1e4;

class MoeWriter {
 public:
  // All arguments must outlive the object.
  MoeWriter(const Shard& shard, GraphNames& names, WeightTensors& weights, onnx::GraphProto& graph)
      : shard_(shard), names_(names), weights_(weights), graph_(graph) {}

  // Adds the nodes of the moe op. Returns the last node, which has no output yet. `channel_axis` is
  // the name of an initializer with the axis 1.
  onnx::NodeProto& add(OpId id, const std::string& channel_axis);

 private:
  onnx::NodeProto& add_coded(OpId id);
  onnx::NodeProto& add_plain(OpId id, const std::string& channel_axis);
  onnx::NodeProto& add_node(std::string name, std::string_view type);
  // A new tensor of this type; its name is `name` or, if that is in use, has a suffix.
  std::string new_tensor(const std::string& name, const Type& type);
  // Adds a node of the default domain with the output.
  void add_step(std::string_view type, const std::vector<std::string>& inputs,
                const std::string& output);
  void fill(const Moe& op, onnx::NodeProto& node) const;
  // The name of the value; empty for an absent operand.
  std::string tensor(ValueId value) const;
  // The name of an initializer with this f32 or f16 scalar.
  const std::string& scalar(DType dtype, double value);

  const Shard& shard_;
  GraphNames& names_;
  WeightTensors& weights_;
  onnx::GraphProto& graph_;
  std::map<std::pair<DType, double>, std::string> scalars_;
};

}  // namespace moec
