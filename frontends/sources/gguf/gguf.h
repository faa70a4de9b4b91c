// Reads the header of a GGUF file, or the headers of a model split into several files. Format:
// "GGUF", a version, the numbers of tensors and of keys; the keys with typed values; the names,
// sizes, types and offsets of the tensors; the bytes of the tensors, each padded to an alignment.
// Integers are little-endian; a 64-bit length precedes each string.
//
// The files are untrusted. The reader validates each number before using it to allocate or to skip.
// Error codes (gguf.*):
//   too_short         fewer than 24 bytes
//   magic             the file does not begin with "GGUF"
//   byte_order        the file is big-endian
//   version           neither version 2 nor 3
//   too_many_tensors  more than 65,536 tensors
//   too_many_keys     more than 4,096 keys
//   truncated         the file ends inside the header, or before the last byte of a tensor
//   header_too_long   the header exceeds 128 MiB
//   incomplete        `start` of parse_gguf() does not contain the whole header
//   string_too_long   a string exceeds 64 MiB
//   array_too_long    an array has more than 16,777,216 entries
//   key               a key is empty, or longer than 65,535 bytes
//   duplicate_key     a key occurs twice
//   value_type        unknown type code of a value
//   nested_array      an array of arrays
//   alignment         general.alignment is not a u32 that is a power of two and a multiple of 32
//   name              a tensor's name is empty, longer than 63 bytes, or has control characters
//   duplicate_tensor  two tensors have the same name, in one file or in two files of a model
//   rank              a tensor has more than 4 dimensions
//   dims              a size is negative, or a tensor has 2^63 bytes or more
//   removed_type      a tensor has a type that was removed from the format
//   type              unknown type code of a tensor
//   block             the innermost size is not a multiple of the block size
//   offset            a tensor does not directly follow the previous one
//   missing_key, key_type  see gguf_values.h
//   no_values         see gguf_weights.h
// For models in several files, PREFIX-00001-of-0000N.gguf and so on:
//   split_name        the name of the first file does not end in -00001-of-0000N.gguf
//   split_number      split.no does not match the file's position
//   split_part        a file is missing
//   split_tensors     the number of tensors differs from split.tensors.count
// File errors are those of ir/base/regular_file.h; file.changed means that the size changed during
// reading. The reader accepts sizes padded with ones, empty tensors, files without tensors, bytes
// after the last tensor, and missing padding after it. It does not read the payload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/formats/gguf/gguf_header.h"
#include "backends/formats/gguf/gguf_values.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

// Headers of a model in one or more files.
struct Gguf {
  std::vector<WeightFile> files;
  GgufValues values;                // keys of the first file; keys of other files are ignored
  std::vector<GgufTensor> tensors;  // of all files, in the order of their bytes
};

// Reads headers only, one file at a time. For a model in several files (split.count above 1),
// `path` must name the first.
Result<Gguf> read_gguf(const std::string& path);

// Parses the header of one file. `start` contains at least the whole header; `file_bytes` is the
// size of the file.
Result<GgufHeader> parse_gguf(std::string_view start, uint64_t file_bytes, const std::string& file);

}  // namespace moec
