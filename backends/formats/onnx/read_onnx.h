// Reads an ONNX file back into the IR: the inverse of backends/formats/onnx for the files that it
// writes, and a reader for other static opset-17 graphs of the same ops.
//
// Each node becomes one op; external initializers become weights, inline ones constants; Identity
// only renames. Layouts, op order, IR names and owners of weights come from the model's metadata
// (moec.*, see backends/formats/onnx/graph_writer.h). Without metadata everything is plain, a
// source stands before its first use, and names are the tensors' with characters outside
// [A-Za-z0-9_.] replaced.
//
// Safe on any bytes: nothing is allocated from a number in the file before that number is checked.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// Weights are named as their initializers.
// Errors, all of which name the file and, where there is one, the node or tensor:
//   onnx.open, onnx.too_large, onnx.parse           the file itself
//   onnx.ir_version, onnx.opset, onnx.unsupported   the model: IR version 8, opset 17, no functions
//   onnx.dynamic_shape, onnx.dtype, onnx.shape      types
//   onnx.op, onnx.attribute, onnx.constant_input    nodes
//   onnx.undefined, onnx.duplicate_name, onnx.type_mismatch   names and declared types
//   onnx.tensor_data, onnx.external_data            initializers
//   onnx.metadata                                   moec.* entries that do not fit the graph
// and the constraints of ir/OPS.md.
Result<LoadedShard> read_onnx(const std::string& path);

// The same for a file's bytes; `path` is used in messages and to find external data.
Result<LoadedShard> parse_onnx(std::span<const std::byte> bytes, const std::string& path);

}  // namespace moec
