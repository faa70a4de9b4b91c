#include "backends/formats/tflite/model_writer.h"

#include <algorithm>

namespace moec {

ModelWriter::ModelWriter(const DataLayout& scales, uint64_t begin) : begin_(begin) {
  // A flatbuffer is written from its end.
  for (size_t i = scales.entries().size(); i-- > 0;) {
    const DataLayout::Entry& entry = scales.entries()[i];
    scales_[entry.key] = builder_.CreateVector(std::vector<float>(entry.bytes / sizeof(float)));
  }
  // By convention, buffer 0 is empty and means "no constant".
  buffers_.push_back(tflite::CreateBuffer(builder_));
}

flatbuffers::Offset<tflite::QuantizationParameters> ModelWriter::row_quantization(
    const Weight& weight) {
  const Scales scales = scales_.at(weight_key(weight));
  const size_t rows = flatbuffers::GetTemporaryPointer(builder_, scales)->size();
  const auto [zeros, is_new] = zero_points_.try_emplace(rows);
  // LiteRT refuses scales without zero points.
  if (is_new) zeros->second = builder_.CreateVector(std::vector<int64_t>(rows));
  return tflite::CreateQuantizationParameters(builder_, 0, 0, scales, zeros->second);
}

uint32_t ModelWriter::inline_buffer(const std::string& bytes) {
  const auto [found, is_new] =
      inline_buffers_.try_emplace(bytes, static_cast<uint32_t>(buffers_.size()));
  if (is_new) {
    // Kernels read the data in place, so they are aligned as tflite.fbs states.
    builder_.ForceVectorAlignment(bytes.size(), sizeof(uint8_t), 16);
    const auto data =
        builder_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    buffers_.push_back(tflite::CreateBuffer(builder_, data));
  }
  return found->second;
}

uint32_t ModelWriter::file_buffer(uint64_t offset, uint64_t bytes) {
  const auto [found, is_new] =
      file_buffers_.try_emplace({offset, bytes}, static_cast<uint32_t>(buffers_.size()));
  if (is_new) buffers_.push_back(tflite::CreateBuffer(builder_, 0, offset - begin_, bytes));
  return found->second;
}

uint32_t ModelWriter::operator_code(Builtin code, int32_t version) {
  const auto [found, is_new] =
      code_indices_.try_emplace({code, version}, static_cast<uint32_t>(codes_.size()));
  // Readers of old versions know only the first field, which has one byte.
  const auto narrow = static_cast<int8_t>(std::min(static_cast<int>(code), 127));
  if (is_new) codes_.push_back(tflite::CreateOperatorCode(builder_, narrow, 0, version, code));
  return found->second;
}

void ModelWriter::add_metadata(const std::string& key, const std::string& text) {
  // Readers treat an absent entry as an empty one.
  if (text.empty()) return;
  const uint32_t buffer = inline_buffer(text);
  metadata_.push_back(tflite::CreateMetadata(builder_, builder_.CreateString(key), buffer));
}

std::vector<flatbuffers::Offset<tflite::TensorMap>> ModelWriter::maps(
    const std::vector<Signature::Port>& ports) {
  std::vector<flatbuffers::Offset<tflite::TensorMap>> maps;
  for (const Signature::Port& port : ports)
    maps.push_back(
        tflite::CreateTensorMap(builder_, builder_.CreateString(port.name), port.tensor));
  return maps;
}

void ModelWriter::add_subgraph(flatbuffers::Offset<tflite::SubGraph> subgraph,
                               const Signature& signature) {
  const auto inputs = builder_.CreateVector(maps(signature.inputs));
  const auto outputs = builder_.CreateVector(maps(signature.outputs));
  const auto key = builder_.CreateString(signature.key);
  signatures_.push_back(tflite::CreateSignatureDef(builder_, inputs, outputs, key,
                                                   static_cast<uint32_t>(subgraphs_.size())));
  subgraphs_.push_back(subgraph);
}

std::string ModelWriter::finish(const std::string& description) {
  const auto codes = builder_.CreateVector(codes_);
  const auto subgraphs = builder_.CreateVector(subgraphs_);
  const auto text = builder_.CreateString(description);
  const auto buffers = builder_.CreateVector(buffers_);
  const auto metadata = builder_.CreateVector(metadata_);
  const auto signatures = builder_.CreateVector(signatures_);
  tflite::FinishModelBuffer(
      builder_, tflite::CreateModel(builder_, kTfliteVersion, codes, subgraphs, text, buffers, 0,
                                    metadata, signatures));
  return {reinterpret_cast<const char*>(builder_.GetBufferPointer()), builder_.GetSize()};
}

}  // namespace moec
