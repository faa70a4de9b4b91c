// Reads what a GGUF file, or a model in several files, says of itself. The format: "GGUF", a
// version, the numbers of tensors and of keys; keys with typed values; names, sizes, types and
// offsets of the tensors; then their bytes, each tensor padded to an alignment. Integers are
// little-endian, strings have a 64-bit length before them.
//
// The files are untrusted. The reader checks each number before it allocates or skips anything by
// it. Each kind of error has its own code (gguf.*):
//   too_short         fewer than 24 bytes
//   magic             the file does not begin with "GGUF"
//   byte_order        the file is big-endian
//   version           neither version 2 nor 3
//   too_many_tensors  more than 65,536
//   too_many_keys     more than 4,096
//   truncated         the file ends inside the header, or before the last byte of a tensor
//   header_too_long   the header has more than 128 MiB
//   incomplete        parse_gguf() was given only a part of the header
//   string_too_long   a string has more than 64 MiB
//   array_too_long    an array has more than 16,777,216 entries
//   key               empty, or longer than 65,535 bytes
//   duplicate_key     a key is there twice
//   value_type        the number of a value's type is unknown
//   nested_array      an array of arrays
//   alignment         general.alignment is no u32, no power of two or no multiple of 32
//   name              a tensor's name is empty, longer than 63 bytes, or has control characters
//   duplicate_tensor  two tensors of one name, also in two files of a model
//   rank              more than 4 sizes
//   dims              a size is negative, or the tensor would have 2^63 bytes
//   removed_type      a type that was removed from the format
//   type              the number of the tensor's type is unknown
//   block             the innermost size is no multiple of the elements of a block
//   offset            the tensor does not follow the one before it
//   missing_key, key_type  from reading values of keys: gguf_values.h
//   no_values         from gguf_weights.h
// Of models in several files, PREFIX-00001-of-0000N.gguf and so on:
//   split_name        the first file's name has another form, or does not fit its keys
//   split_number      split.no does not fit the file's place among the others
//   split_part        a file is missing
//   split_tensors     the files have more or fewer tensors than split.tensors.count says
// File errors are those of ir/base/regular_file.h, with file.changed when the size changed while
// reading. Legal: sizes padded with ones, empty tensors and no tensors at all, bytes after the last
// tensor, its padding missing. The payload is not read.
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

// A model, of one file or several.
struct Gguf {
  std::vector<WeightFile> files;
  GgufValues values;                // those of the first file; the others' do not count
  std::vector<GgufTensor> tensors;  // of all files, in the order of their bytes
};

// Reads headers only, one file at a time. Of a model in several files (the key split.count is above
// 1), `path` names the first.
Result<Gguf> read_gguf(const std::string& path);

// The header of one file from its start in memory, which must include the whole header; the file
// has `file_bytes` in total.
Result<GgufHeader> parse_gguf(std::string_view start, uint64_t file_bytes, const std::string& file);

}  // namespace moec
