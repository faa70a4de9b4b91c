#include "backends/formats/safetensors/safetensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/formats/safetensors/safetensors_dtype.h"
#include "backends/formats/safetensors/safetensors_header.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kSmallHeaderBytes = 1 << 20;  // headers up to this size skip the ratio check

// Combines single bytes, so that the result does not depend on the byte order of the host.
uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = kSafetensorsPrefix; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// The length of the header, from the file's first 8 bytes.
Result<uint64_t> header_length(std::string_view prefix, uint64_t file_bytes,
                               const std::string& file) {
  if (prefix.size() < kSafetensorsPrefix)
    return fail("safetensors.too_short",
                fmt::format("the file has {} bytes, expected at least 8", file_bytes),
                "download the file again, or pass a safetensors file", {.file = file});
  uint64_t length = little_endian(prefix);
  if (length > kSafetensorsMaxHeader)
    return fail("safetensors.header_too_long",
                fmt::format("the header states a length of {} bytes, the limit is {}", length,
                            kSafetensorsMaxHeader),
                "download the file again, or pass a safetensors file", {.file = file, .offset = 0});
  // The prefix is complete, so file_bytes is at least 8 and the difference cannot wrap around.
  if (length > file_bytes - kSafetensorsPrefix)
    return fail("safetensors.truncated",
                fmt::format("the header has {} bytes, but only {} follow its length", length,
                            file_bytes - kSafetensorsPrefix),
                "download the file again", {.file = file, .offset = file_bytes});
  // Parsed JSON needs many times the memory of its text. Without this limit, a small file with a
  // large header could exhaust memory.
  uint64_t payload = file_bytes - kSafetensorsPrefix - length;
  if (length > kSmallHeaderBytes && length > payload)
    return fail("safetensors.header_ratio",
                fmt::format("the header has {} bytes, but the tensors only {}", length, payload),
                "download the file again from a trusted source", {.file = file});
  return length;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(std::string_view start, uint64_t file_bytes,
                                            const std::string& file) {
  MOEC_ASSIGN(uint64_t length,
              header_length(start.substr(0, kSafetensorsPrefix), file_bytes, file));
  // header_length() has checked that `start` contains the prefix.
  if (length > start.size() - kSafetensorsPrefix)
    return fail("safetensors.truncated", "the header is incomplete", {}, {.file = file});
  return read_header(start.substr(kSafetensorsPrefix, length), file_bytes, file);
}

Result<SafetensorsHeader> read_safetensors(const std::string& path) {
  MOEC_ASSIGN(RegularFile file, RegularFile::open(path));
  MOEC_ASSIGN(std::string prefix, file.read(0, std::min(file.size(), kSafetensorsPrefix)));
  constexpr uint64_t kPointerStart = 64;
  MOEC_ASSIGN(const std::string first, file.read(0, std::min(file.size(), kPointerStart)));
  // header_length() would read the text of an LFS pointer as a huge length, so it is called later.
  MOEC_TRY(check_no_lfs_pointer(first, path));
  MOEC_ASSIGN(uint64_t length, header_length(prefix, file.size(), path));
  MOEC_ASSIGN(std::string start, file.read(0, kSafetensorsPrefix + length));
  MOEC_ASSIGN(SafetensorsHeader header, parse_safetensors(start, file.size(), path));
  header.identity = file.identity();
  // The file was read in several calls, between which it must not have changed.
  MOEC_TRY(file.check_unchanged());
  return header;
}

std::optional<Type> ir_type(const SafetensorsEntry& entry) {
  const DiskDType* dtype = find_disk_dtype(entry.dtype);
  if (dtype == nullptr || !dtype->ir || entry.shape.size() > kMaxRank ||
      !checked_elements(entry.shape))
    return std::nullopt;
  return Type{*dtype->ir, entry.shape};
}

}  // namespace moec
