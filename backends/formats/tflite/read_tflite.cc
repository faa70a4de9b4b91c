#include "backends/formats/tflite/read_tflite.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/formats/tflite/subgraph_reader.h"
#include "backends/formats/tflite/tflite_ops.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// Sizes of the parts of a file that are read in search of a whole flatbuffer, which does not state
// its size. The last one is the limit of flatbuffers; FlatBuffers' verifier requires less.
constexpr uint64_t kFirstPart = uint64_t{1} << 20;
constexpr uint64_t kPartFactor = 8;
constexpr uint64_t kLargestPart = (uint64_t{1} << 31) - 2;

bool verifies(std::span<const std::byte> bytes) {
  if (bytes.size() > kLargestPart) return false;
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return tflite::VerifyModelBuffer(verifier);
}

const tflite::SignatureDef* find_signature(const tflite::Model& model, const std::string& key) {
  if (!model.signature_defs()) return nullptr;
  for (const tflite::SignatureDef* one : *model.signature_defs())
    if (key.empty() || (one->signature_key() && one->signature_key()->str() == key)) return one;
  return nullptr;
}

Result<SignedSubgraph> choose_subgraph(const tflite::Model& model, const std::string& function) {
  const tflite::SignatureDef* signature = find_signature(model, function);
  if (!signature && !function.empty())
    return fail("tflite.signature", fmt::format("the model has no signature \"{}\"", function),
                "export the model again");
  const uint32_t index = signature ? signature->subgraph_index() : 0;
  if (!model.subgraphs() || index >= model.subgraphs()->size())
    return fail("tflite.signature", fmt::format("the model has no subgraph {}", index),
                "export the model again");
  return SignedSubgraph{model.subgraphs()->Get(index), signature};
}

// The text of a metadata buffer; empty if it does not exist.
std::string metadata_text(const tflite::Model& model, uint32_t buffer) {
  if (!model.buffers() || buffer >= model.buffers()->size()) return {};
  const auto* data = model.buffers()->Get(buffer)->data();
  return data ? std::string(data->begin(), data->end()) : std::string();
}

Result<GraphMetadata> read_metadata(const tflite::Model& model, const SignedSubgraph& of) {
  GraphMetadata metadata;
  const auto* key = of.signature ? of.signature->signature_key() : nullptr;
  if (!model.metadata()) return metadata;
  for (const tflite::Metadata* entry : *model.metadata())
    if (entry->name())
      MOEC_TRY(add_entry(entry->name()->str(), metadata_text(model, entry->buffer()),
                         key ? key->str() : std::string(), "tflite.metadata", metadata));
  return metadata;
}

Result<LoadedShard> read_model(std::span<const std::byte> bytes, const std::string& path,
                               uint64_t file_bytes, const std::string& function) {
  if (bytes.size() < 8 || !tflite::ModelBufferHasIdentifier(bytes.data()))
    return fail("tflite.parse", "the file is not a TFLite model",
                "pass the path of a .tflite file");
  if (!verifies(bytes))
    return fail("tflite.parse", "the flatbuffer is damaged, or has 2 GiB or more",
                "export the model again");
  const TfliteFile file{bytes.data(), tflite::GetModel(bytes.data()), path, file_bytes};
  if (file.model->version() != kTfliteVersion)
    return fail("tflite.version",
                fmt::format("schema version {} is unsupported, expected {}", file.model->version(),
                            kTfliteVersion),
                "export the model again");
  MOEC_ASSIGN(const SignedSubgraph of, choose_subgraph(*file.model, function));
  MOEC_ASSIGN(const GraphMetadata metadata, read_metadata(*file.model, of));
  return read_subgraph(file, of, metadata);
}

}  // namespace

Result<LoadedShard> parse_tflite(std::span<const std::byte> bytes, const std::string& path,
                                 uint64_t file_bytes, const std::string& function) {
  return with_file(read_model(bytes, path, file_bytes, function), path);
}

Result<LoadedShard> read_tflite(const std::string& path, const std::string& function) {
  const auto file = RegularFile::open(path);
  if (!file)
    return fail("tflite.open", file.error().front().cause, "pass the path of a .tflite file",
                {.file = path});
  const uint64_t largest = std::min(file->size(), kLargestPart);
  std::string bytes;
  // A part that contains the whole flatbuffer verifies, because no offset leaves it.
  for (uint64_t part = std::min(kFirstPart, largest);;
       part = std::min(part * kPartFactor, largest)) {
    MOEC_ASSIGN(bytes, file->read(0, part));
    const bool is_model = bytes.size() >= 8 && tflite::ModelBufferHasIdentifier(bytes.data());
    if (part == largest || !is_model || verifies(std::as_bytes(std::span(bytes)))) break;
  }
  return parse_tflite(std::as_bytes(std::span(bytes)), path, file->size(), function);
}

}  // namespace moec
