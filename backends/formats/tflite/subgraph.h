// One subgraph of a TFLite model during writing: its tensors, operators, inputs and outputs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/formats/tflite/model_writer.h"
#include "backends/formats/tflite/node_writer.h"
#include "ir/graph/ops.h"

namespace moec {

inline constexpr int32_t kNoTensor = -1;

struct SubgraphTensor {
  std::string name;
  tflite::TensorType type{};
  Dims dims;
  uint32_t buffer = 0;  // 0: computed
  flatbuffers::Offset<tflite::QuantizationParameters> quantization = 0;
};

class Subgraph {
 public:
  explicit Subgraph(ModelWriter& model);
  Subgraph(const Subgraph&) = delete;  // parts() refers to this object
  Subgraph& operator=(const Subgraph&) = delete;

  ModelWriter& model() { return model_; }
  const NodeParts& parts() const { return parts_; }

  // Return the index of a new tensor.
  int32_t add_tensor(const SubgraphTensor& tensor);
  int32_t add_computed(const std::string& name, const Type& type);
  int32_t add_constant(const std::string& name, const Constant& op);
  // Return the index of an i32 constant, a scalar if `dims` is empty, and of a constant of shape
  // [1] with the value 1. Equal constants are one tensor.
  int32_t integers(const std::vector<int64_t>& values, const Dims& dims);
  int32_t one(DType dtype);

  void add_operator(const TfliteNode& node, const std::vector<int32_t>& outputs);
  void add_input(const std::string& name, int32_t tensor);
  void add_output(const std::string& name, int32_t tensor);

  // Adds the subgraph to the model, under the signature `key`. Call once, last.
  void finish(const std::string& key);

 private:
  ModelWriter& model_;
  flatbuffers::FlatBufferBuilder& builder_;
  const NodeParts parts_;
  std::vector<flatbuffers::Offset<tflite::Tensor>> tensors_;
  std::vector<flatbuffers::Offset<tflite::Operator>> operators_;
  std::vector<int32_t> inputs_, outputs_;
  Signature signature_;
  std::map<std::pair<std::vector<int64_t>, Dims>, int32_t> integers_;
  std::map<DType, int32_t> ones_;
};

}  // namespace moec
