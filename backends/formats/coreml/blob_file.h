// weight.bin in blob format v2 (apple/coremltools, MILBlob): a 64-byte header, and before each
// blob's data 64 bytes with its element type, size and offset.
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
  // `folder` contains the model.mlmodel. The file is opened when the first value needs it.
  explicit BlobFile(const std::string& folder);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // 0 before the first blob

  // The offset of the data of a value of this type, which lie in the file completely. Error:
  // coreml.blob.
  Result<uint64_t> locate(const mlmodel::Value& value, const Type& type, const std::string& name);

  // Numbers of a few bits each, one after the other.
  struct Packed {
    uint32_t dtype = 0;  // the format's number for the element type
    int64_t bits = 8;    // of an element
  };
  // The same for packed numbers that take `bits` in all.
  Result<uint64_t> locate(const mlmodel::Value& value, const Packed& packed, uint64_t bits,
                          const std::string& name);

  // The elements of the blob whose data begin at `offset`. Errors: coreml.blob; coreml.value for a
  // constant of more than 2^24 elements.
  Result<std::vector<double>> values(uint64_t offset, const Type& type,
                                     const std::string& name) const;

 private:
  struct Stated {  // what the record before a blob must state
    uint32_t dtype = 0;
    uint64_t bytes = 0, padding_bits = 0;
  };
  Result<uint64_t> locate_stated(const mlmodel::Value& value, const Stated& wanted,
                                 const std::string& name);
  Status open(const std::string& name);

  std::string path_;
  uint64_t bytes_ = 0;
};

}  // namespace moec
