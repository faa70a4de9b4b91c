// Reads weight.bin in blob format v2 (apple/coremltools, MILBlob): a 64-byte header, then per blob
// a 64-byte record (element type, size, offset) and the data.
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
  // `folder` contains the model.mlmodel. The file is opened on first use.
  explicit BlobFile(const std::string& folder);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // 0 until the file is opened

  // Returns the offset of a value's data. Checks the blob's record against `type`, and its range
  // against the size of the file. Error: coreml.blob.
  Result<uint64_t> locate(const mlmodel::Value& value, const Type& type, const std::string& name);

  // A bit-packed element type.
  struct Packed {
    uint32_t dtype = 0;  // the format's number for the element type
    int64_t bits = 8;    // per element
  };
  // As above, for packed elements with `bits` bits in total.
  Result<uint64_t> locate(const mlmodel::Value& value, const Packed& packed, uint64_t bits,
                          const std::string& name);

  // Returns the elements of the blob whose data begin at `offset`. Errors: coreml.blob;
  // coreml.value for more than 2^24 elements.
  Result<std::vector<double>> values(uint64_t offset, const Type& type,
                                     const std::string& name) const;

 private:
  struct Stated {  // expected contents of a blob's record
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
