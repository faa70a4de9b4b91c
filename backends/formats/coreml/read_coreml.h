// Reads a Core ML package back into the IR: the inverse of backends/formats/coreml for the packages
// that it writes, and a reader for other static ML Programs of the same ops.
//
// backends/formats/coreml/mil_writer.h documents how ops, names and metadata map. Constants that
// only state an argument (axis, shape, booleans) become attributes; consts in weight.bin that ops
// take as values become weights unless the metadata says constant; immediate ones become constants,
// of one value where all elements are equal. `identity` only renames; a product with the scalar −1
// is `neg`. Without moec.* metadata every layout is plain but for the operands of conv, which
// stands between reshapes that state layouts, and names are the MIL names.
//
// Safe on any bytes: nothing is allocated from a number in the file before that number is checked.
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
  int64_t tokens = 0;    // of a range package: the width to read it for; 0: the least
};

// `path` is the .mlpackage folder, or the model.mlmodel in it. Weights lie in weight.bin, named as
// their consts. Errors, all of which name the file and, where there is one, the operation:
//   coreml.open, coreml.too_large, coreml.parse, coreml.package   files and Manifest.json
//   coreml.spec_version, coreml.opset, coreml.function            the model
//   coreml.dynamic_shape, coreml.dtype, coreml.shape              types
//   coreml.op, coreml.argument                                    operations
//   coreml.undefined, coreml.duplicate_name, coreml.type_mismatch names and declared types
//   coreml.blob, coreml.value                                     weight.bin and immediate values
//   coreml.description                                            ports against the program
//   coreml.metadata                                               moec.* entries that do not fit
// and the constraints of ir/OPS.md.
Result<LoadedShard> read_coreml(const std::string& path, const CoremlReadOptions& options = {});

// The same for the bytes of a model.mlmodel; `path` is used in messages and to find
// weights/weight.bin beside it.
Result<LoadedShard> parse_coreml(std::span<const std::byte> bytes, const std::string& path,
                                 const CoremlReadOptions& options = {});

}  // namespace moec
