// Plans the safetensors files of a checkpoint before any payload is available: the bytes of each
// header, the position of each tensor, and the index of several files. safetensors.h describes the
// format.
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

// One file of a checkpoint. Its tensors are contiguous, in this order.
struct SafetensorsPart {
  std::string name;  // "model-00001-of-00003.safetensors", or "model.safetensors" for a single file
  std::string header;  // including the length prefix
  std::vector<SafetensorsTensor> tensors;
  uint64_t payload_bytes = 0;

  uint64_t file_bytes() const { return header.size() + payload_bytes; }
};

// Splits the tensors in order into files of at most `max_bytes` of payload. A larger tensor gets
// its own file. Within a file, tensors with wider elements come first and headers are padded to 8
// bytes, so that each tensor is aligned to its element size. Errors: safetensors.duplicate_tensor,
// safetensors.too_many (more than 99,999 files).
Result<std::vector<SafetensorsPart>> plan_safetensors(const std::vector<SafetensorsTensor>& tensors,
                                                      uint64_t max_bytes);

// The text of model.safetensors.index.json: the file of each tensor, by name, and the total bytes.
std::string safetensors_index_text(const std::vector<SafetensorsPart>& parts);

}  // namespace moec
