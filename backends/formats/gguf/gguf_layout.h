// Plans a GGUF file before any payload is there: the bytes of its header, and where each tensor
// lies. A file that is written as planned is one that the reader (frontends/sources/gguf) and
// llama.cpp take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/formats/gguf/gguf_entry.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/block_type.h"
#include "ir/graph/type.h"

namespace moec {

struct GgufTensorInfo {
  std::string name;
  BlockType type = BlockType::f32;
  Dims dims;  // the outermost first; the file states them the other way round
  bool operator==(const GgufTensorInfo&) const = default;
};

struct GgufLayout {
  std::string header;                   // with the padding before the first tensor
  std::vector<GgufTensorInfo> tensors;  // in the order of their bytes
  std::vector<uint64_t> offsets;        // of each tensor, from the start of the file
  std::vector<uint64_t> bytes;          // of each tensor, without padding
  uint64_t file_bytes = 0;              // with the padding after the last tensor
};

// How many bytes a tensor has. Errors with the tensor's name: gguf.rank (more than 4 sizes),
// gguf.dims (a size is negative, or 2^63 bytes or more), gguf.block (a row is no whole number of
// blocks).
Result<uint64_t> gguf_tensor_bytes(const GgufTensorInfo& tensor);

// The layout of one file. Tensors lie in the order given, each padded to the alignment of the entry
// general.alignment (u32), or to 32 bytes. Errors also: those of entry_bytes(), gguf.duplicate_key,
// gguf.alignment, gguf.name (empty, longer than 63 bytes, or with control characters),
// gguf.duplicate_tensor, gguf.too_many_keys, gguf.too_many_tensors, gguf.header_too_long.
Result<GgufLayout> plan_gguf(const std::vector<GgufEntry>& entries,
                             std::vector<GgufTensorInfo> tensors);

// One file of a model that is spread over several.
struct GgufPart {
  std::string name;  // "NAME-00001-of-00003.gguf", or "NAME.gguf" where it is the only one
  GgufLayout layout;
};

// The name of the model in a file, whose name gguf_part_name() may have made of it.
std::string gguf_model_name(std::string file_name);

// The names of all parts, in their order.
std::string gguf_part_name(const std::string& name, size_t part, size_t parts);

// Cuts a model into files of at most `max_bytes` each, between tensors, in their order. All entries
// are in the first part; with several parts each has the keys split.no, split.count and
// split.tensors.count besides, which must not be among the entries. Errors also: gguf.part_size
// where the header or a tensor alone takes more than max_bytes, with the tensor's name;
// gguf.too_many_parts above 65,535.
Result<std::vector<GgufPart>> plan_gguf_parts(const std::string& name,
                                              const std::vector<GgufEntry>& entries,
                                              const std::vector<GgufTensorInfo>& tensors,
                                              uint64_t max_bytes = UINT64_MAX);

}  // namespace moec
