// Header of one GGUF file: keys, and the positions of its tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/formats/gguf/gguf_cursor.h"
#include "backends/formats/gguf/gguf_values.h"
#include "ir/base/diagnostics.h"
#include "ir/base/regular_file.h"
#include "ir/graph/block_type.h"
#include "ir/graph/type.h"

namespace moec {

struct GgufTensor {
  std::string name;
  BlockType type = BlockType::f32;
  Dims dims;            // outermost first; at most 4, and a size may be 0
  uint32_t file = 0;    // index into Gguf::files
  uint64_t offset = 0;  // bytes from the start of the file
  uint64_t bytes = 0;
  bool operator==(const GgufTensor&) const = default;
};

struct GgufHeader {
  uint64_t file_bytes = 0;
  std::optional<FileIdentity> identity;  // of the file; empty for a header in memory
  uint32_t version = 0;
  uint64_t alignment = 0;  // of each tensor's first byte, counted from data_start
  uint64_t data_start = 0;
  GgufValues values;
  std::vector<GgufTensor> tensors;  // in file order
};

// Reads a header. Errors: gguf.* as listed in gguf.h, file.*.
Result<GgufHeader> read_gguf_header(GgufCursor cursor);

}  // namespace moec
