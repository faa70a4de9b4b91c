// Collects the parts of a TFLite model that its subgraphs share: buffers, operator codes and
// metadata. Equal bytes become one buffer.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

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
  ModelWriter();

  flatbuffers::FlatBufferBuilder& builder() { return builder_; }

  // Return the index of a buffer with these bytes, or with this range of the file.
  uint32_t inline_buffer(const std::string& bytes);
  uint32_t file_buffer(uint64_t offset, uint64_t bytes);
  uint32_t operator_code(Builtin code, int32_t version);

  void add_metadata(const std::string& key, const std::string& text);
  void add_subgraph(flatbuffers::Offset<tflite::SubGraph> subgraph, const Signature& signature);

  // Returns the model's bytes. Call once, last.
  std::string finish(const std::string& description);

 private:
  std::vector<flatbuffers::Offset<tflite::TensorMap>> maps(const std::vector<Signature::Port>&);

  flatbuffers::FlatBufferBuilder builder_;
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
