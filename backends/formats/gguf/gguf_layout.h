// Plans a GGUF file before any payload is available: the bytes of its header and the position of
// each tensor. The reader (frontends/sources/gguf) and llama.cpp accept files written as planned.
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
  Dims dims;  // outermost first; the file lists them innermost first
  bool operator==(const GgufTensorInfo&) const = default;
};

struct GgufLayout {
  std::string header;                   // with the padding before the first tensor
  std::vector<GgufTensorInfo> tensors;  // in file order
  std::vector<uint64_t> offsets;        // of each tensor, from the start of the file
  std::vector<uint64_t> bytes;          // of each tensor, without padding
  uint64_t file_bytes = 0;              // with the padding after the last tensor
};

// Returns the bytes of a tensor. Errors, with the tensor's name: gguf.rank (more than 4 sizes),
// gguf.dims (a size is negative, or 2^63 bytes or more), gguf.block (a row is not a whole number of
// blocks).
Result<uint64_t> gguf_tensor_bytes(const GgufTensorInfo& tensor);

// Plans one file. Tensors keep the given order, each padded to the alignment of the entry
// general.alignment (u32; default 32). Errors: those of gguf_tensor_bytes() and entry_bytes(),
// gguf.duplicate_key, gguf.alignment, gguf.name (empty, longer than 63 bytes, or with control
// characters), gguf.duplicate_tensor, gguf.too_many_keys, gguf.too_many_tensors,
// gguf.header_too_long.
Result<GgufLayout> plan_gguf(const std::vector<GgufEntry>& entries,
                             std::vector<GgufTensorInfo> tensors);

// One file of a model, which may be split over several files.
struct GgufPart {
  std::string name;  // "NAME-00001-of-00003.gguf", or "NAME.gguf" for a single file
  GgufLayout layout;
};

// Returns the model name in a file name: the inverse of gguf_part_name().
std::string gguf_model_name(std::string file_name);
// Removes a suffix that states the tensor type: "SmolLM2-135M" from "SmolLM2-135M.Q4_K_M" or
// "SmolLM2-135M-f16".
std::string without_gguf_type(std::string name);

// Returns the file name of part `part`, counted from 0, of `parts`.
std::string gguf_part_name(const std::string& name, size_t part, size_t parts);

// Splits a model between tensors into files of at most `max_bytes`, keeping the order. The first
// part has all entries. If there are several parts, each also has the keys split.no, split.count
// and split.tensors.count, which `entries` must not contain. Further errors: gguf.part_size with
// the tensor's name if the header or a single tensor exceeds max_bytes; gguf.too_many_parts above
// 65,535.
Result<std::vector<GgufPart>> plan_gguf_parts(const std::string& name,
                                              const std::vector<GgufEntry>& entries,
                                              const std::vector<GgufTensorInfo>& tensors,
                                              uint64_t max_bytes = UINT64_MAX);

}  // namespace moec
