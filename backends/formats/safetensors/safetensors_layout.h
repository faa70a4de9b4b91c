// Plans the safetensors files of a checkpoint before any payload is there: the bytes of each
// header, where each tensor lies, and the index of several files. The format is that of the reader
// (backends/formats/safetensors/safetensors.h): a little-endian 8-byte number N, N bytes of JSON,
// then the tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace moec {

struct SafetensorsTensor {
  std::string name;
  Type type;
  bool operator==(const SafetensorsTensor&) const = default;
};

// One file of a checkpoint. Its tensors lie side by side, in this order.
struct SafetensorsPart {
  std::string name;    // "model-00001-of-00003.safetensors", or "model.safetensors" alone
  std::string header;  // with the number before it
  std::vector<SafetensorsTensor> tensors;
  uint64_t payload_bytes = 0;

  uint64_t file_bytes() const { return header.size() + payload_bytes; }
};

// Cuts the tensors, in their order, into files of at most `max_bytes` of payload each. A tensor
// that is larger has a file of its own. In a file, those of wider elements come first, so that each
// tensor begins at a multiple of its element's size; each header is a multiple of 8 bytes. Errors:
// safetensors.duplicate_tensor, safetensors.too_many (more than 99,999 files).
Result<std::vector<SafetensorsPart>> plan_safetensors(const std::vector<SafetensorsTensor>& tensors,
                                                      uint64_t max_bytes);

// The text of model.safetensors.index.json: the file of each tensor, by name, and all bytes.
std::string safetensors_index_text(const std::vector<SafetensorsPart>& parts);

}  // namespace moec
