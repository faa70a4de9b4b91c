// Reads a TFLite file back into the IR: the inverse of emit_tflite.h for moec's own files, and a
// reader for other static models with the same ops. Each operator becomes one op, except those of
// subgraph_writer.h that stand for several or none. Buffers after the flatbuffer become weights,
// buffers inside it constants. Layouts, IR names and weight owners come from the model's metadata;
// without them every layout is plain. Safe for untrusted input: flatbuffers::Verifier checks the
// tables, and every number in the file is checked before it is used.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

// Reads the graph of the signature with key `function`; of the first one, or of the first subgraph,
// if it is empty. Weights have the names of their tensors. Errors, which name the file and, if
// applicable, the tensor:
//   tflite.open, tflite.parse, tflite.version, tflite.signature   the file itself
//   tflite.dtype, tflite.shape, tflite.dynamic_shape, tflite.quantized, tflite.buffer   tensors
//   tflite.op, tflite.option, tflite.constant_input               operators
//   tflite.undefined, tflite.duplicate_name, tflite.type_mismatch   names and stated types
//   tflite.metadata                                               moec.* entries
// and the constraints of ir/OPS.md.
Result<LoadedShard> read_tflite(const std::string& path, const std::string& function = {});

// Reads the file's first bytes, which contain the flatbuffer; `file_bytes` is the size of the file
// and bounds the weights. `bytes` are read in place, so they must be aligned to 16 bytes. `path` is
// used in messages and for the weights.
Result<LoadedShard> parse_tflite(std::span<const std::byte> bytes, const std::string& path,
                                 uint64_t file_bytes, const std::string& function = {});

}  // namespace moec
