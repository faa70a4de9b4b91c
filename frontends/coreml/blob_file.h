// weight.bin, blob format v2 (apple/coremltools, MILBlob): a 64-byte header, and before each blob's
// data 64 bytes that tell its element type, size and place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace moec {

namespace mlmodel {
class Value;
}

inline constexpr std::string_view kBlobFileName = "@model_path/weights/weight.bin";

class BlobFile {
 public:
  // `folder` is where the model.mlmodel lies. The file is looked at when a value asks for it.
  explicit BlobFile(const std::string& folder);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // 0 before the first blob

  // Where the data of a value of this type begin: they lie wholly in the file. Error: coreml.blob.
  Result<uint64_t> locate(const mlmodel::Value& value, const Type& type, const std::string& name);

  // The elements of the blob whose data begin there. Errors: coreml.blob, coreml.value (a constant
  // above 2^24 elements is none).
  Result<std::vector<double>> values(uint64_t offset, const Type& type,
                                     const std::string& name) const;

 private:
  Status open(const std::string& name);

  std::string path_;
  uint64_t bytes_ = 0;
};

}  // namespace moec
