// Reads the header of a safetensors file. The format: a little-endian 8-byte number N, N bytes of
// JSON, then the bytes of the tensors. The JSON maps each name to {"dtype", "shape",
// "data_offsets": [begin, end]}, offsets counted from the end of the JSON; "__metadata__" maps
// strings to strings. The files are untrusted: the reader checks each number before using it for an
// allocation or an offset. Error codes (safetensors.*):
//   too_short        fewer than 8 bytes
//   header_too_long  N is above 100,000,000
//   truncated        the file ends inside the header, or before the last tensor's bytes
//   header_ratio     the header is above 1 MiB and larger than the tensors that it describes
//   header_start     the JSON does not start with {
//   name             empty, longer than 1,024 bytes, or with control characters
//   field            an entry is not an object, or a field is missing, unknown or of another type
//   metadata         a value of __metadata__ is not a string
//   number           a size or offset that is negative, not an integer, or above 2^48
//   rank             more than 8 sizes
//   dtype            an unknown element type
//   shape            the tensor has more than 2^63 bits or a fraction of a byte, or a 4-bit type
//                    has an odd last size
//   offsets          end is less than begin
//   size             the range does not have the length that dtype and shape require
//   overlap, hole    two ranges share bytes, or bytes between two ranges belong to no tensor
//   trailing         bytes after the last tensor
//   too_many         more than 4,000,000 tensors
// JSON errors are those of ir/base/json.h: duplicate keys, nesting above 3, and so on. File errors
// are those of ir/base/regular_file.h, including file.changed if the size changed while reading.
// The payload is not read: NaN and infinities in tensors are legal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/formats/safetensors/safetensors_header.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace moec {

Result<SafetensorsHeader> read_safetensors(const std::string& path);

// Parses the start of a file in memory, which must include the whole header; `file_bytes` is the
// size of the file.
Result<SafetensorsHeader> parse_safetensors(std::string_view start, uint64_t file_bytes,
                                            const std::string& file);

// Returns the IR type of an entry, or nullopt if the IR does not support it. Supported are F32,
// F16, BF16, I64, I32, U8, BOOL and F8_E4M3 with at most five sizes, none of them 0.
std::optional<Type> ir_type(const SafetensorsEntry& entry);

}  // namespace moec
