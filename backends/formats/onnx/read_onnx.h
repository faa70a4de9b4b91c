// Reads an ONNX file back into the IR: the inverse of emit_onnx.h for moec's own files, and a
// reader for other static opset-17 graphs with the same ops. Each node becomes one op; external
// initializers become weights, and inline initializers become constants; Identity only renames a
// tensor. Layouts, op order, IR names and weight owners come from the model's metadata (moec.*, see
// backends/formats/onnx/graph_writer.h). Without metadata every layout is plain, a source directly
// precedes its first use, and names are the tensor names with characters outside [A-Za-z0-9_.]
// replaced. Safe for untrusted input: every number in the file is checked before it is used for an
// allocation.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// Weights have the names of their initializers. Errors, which name the file and, if applicable, the
// node or tensor:
//   onnx.open, onnx.too_large, onnx.parse           the file itself
//   onnx.ir_version, onnx.opset, onnx.unsupported   the model: IR version 8, opset 17, no functions
//   onnx.dynamic_shape, onnx.dtype, onnx.shape      types
//   onnx.op, onnx.attribute, onnx.constant_input    nodes
//   onnx.undefined, onnx.duplicate_name, onnx.type_mismatch   names and declared types
//   onnx.tensor_data, onnx.external_data            initializers
//   onnx.metadata                                   moec.* entries that contradict the graph
// and the constraints of ir/OPS.md.
Result<LoadedShard> read_onnx(const std::string& path);

// Reads a file's bytes; `path` is used in messages and to find external data.
Result<LoadedShard> parse_onnx(std::span<const std::byte> bytes, const std::string& path);

}  // namespace moec
