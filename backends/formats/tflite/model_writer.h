// Collects the parts of a TFLite model that its subgraphs share: buffers, scales per row, operator
// codes and metadata. Equal bytes become one buffer.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/emit/data_layout.h"
#include "backends/formats/tflite/tflite_ops.h"

namespace moec {

// A signature: the name of a subgraph for callers, and its ports.
struct Signature {
  struct Port {
    std::string name;
    uint32_t tensor = 0;
  };
  std::string key;
  std::vector<Port> inputs, outputs;
};

class ModelWriter {
 public:
  // The flatbuffer ends with the layout's entries, which are zeros: the scales per row, each as a
  // vector with its count in the 4 bytes before it. `begin` is the model's position in the
  // file, from which buffers count.
  explicit ModelWriter(const DataLayout& scales, uint64_t begin = 0);

  flatbuffers::FlatBufferBuilder& builder() { return builder_; }

  // Return the index of a buffer with these bytes, or with this range of the file.
  uint32_t inline_buffer(const std::string& bytes);
  uint32_t file_buffer(uint64_t offset, uint64_t bytes);
  // The quantization of a weight with a scale per row, whose scales are in the layout.
  flatbuffers::Offset<tflite::QuantizationParameters> row_quantization(const Weight& weight);
  uint32_t operator_code(Builtin code, int32_t version);

  void add_metadata(const std::string& key, const std::string& text);
  void add_subgraph(flatbuffers::Offset<tflite::SubGraph> subgraph, const Signature& signature);

  // Returns the model's bytes. Call once, last.
  std::string finish(const std::string& description);

 private:
  using Scales = flatbuffers::Offset<flatbuffers::Vector<float>>;
  using ZeroPoints = flatbuffers::Offset<flatbuffers::Vector<int64_t>>;
  std::vector<flatbuffers::Offset<tflite::TensorMap>> maps(const std::vector<Signature::Port>&);

  uint64_t begin_;
  flatbuffers::FlatBufferBuilder builder_;
  std::map<std::string, Scales> scales_;      // by weight_key()
  std::map<size_t, ZeroPoints> zero_points_;  // by count
  std::vector<flatbuffers::Offset<tflite::Buffer>> buffers_;
  std::map<std::string, uint32_t> inline_buffers_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> file_buffers_;
  std::vector<flatbuffers::Offset<tflite::OperatorCode>> codes_;
  std::map<std::pair<Builtin, int32_t>, uint32_t> code_indices_;
  std::vector<flatbuffers::Offset<tflite::Metadata>> metadata_;
  std::vector<flatbuffers::Offset<tflite::SubGraph>> subgraphs_;
  std::vector<flatbuffers::Offset<tflite::SignatureDef>> signatures_;
};

}  // namespace moec
