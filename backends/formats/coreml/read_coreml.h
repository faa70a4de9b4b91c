// Reads a Core ML package back into the IR: the inverse of emit_coreml.h for moec's own packages,
// and a reader for other static ML Programs with the same ops. mil_writer.h documents the mapping
// of ops, names and metadata. Consts that are only arguments (axis, shape, booleans) become
// attributes. Consts in weight.bin that ops use as values become weights, unless the metadata mark
// them as constants. Immediate values become constants, with a single value if all elements are
// equal. `identity` only renames a value; a product that the metadata mark becomes `neg`. Without
// moec.* metadata, names are the MIL names and every layout is plain, except that each conv is
// placed between reshapes that change the layout of its input and output. Safe for untrusted input:
// every number in the file is checked before it is used for an allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

struct CoremlReadOptions {
  std::string function;  // empty: the only function, or the default one
  int64_t tokens = 0;    // token width for a range package; 0: the smallest
};

// `path` is the .mlpackage folder, or the model.mlmodel in it. Weights are in weight.bin and have
// the names of their consts. Errors, which name the file and, if applicable, the operation:
//   coreml.open, coreml.too_large, coreml.parse, coreml.package   files and Manifest.json
//   coreml.spec_version, coreml.opset, coreml.function            the model
//   coreml.dynamic_shape, coreml.dtype, coreml.shape              types
//   coreml.op, coreml.argument                                    operations
//   coreml.undefined, coreml.duplicate_name, coreml.type_mismatch names and declared types
//   coreml.blob, coreml.value                                     weight.bin and immediate values
//   coreml.description                                            ports that contradict the program
//   coreml.metadata                                               mismatched moec.* entries
// and the constraints of ir/OPS.md.
Result<LoadedShard> read_coreml(const std::string& path, const CoremlReadOptions& options = {});

// Reads the bytes of a model.mlmodel; `path` is used in messages and to find weights/weight.bin
// next to the model.
Result<LoadedShard> parse_coreml(std::span<const std::byte> bytes, const std::string& path,
                                 const CoremlReadOptions& options = {});

}  // namespace moec
