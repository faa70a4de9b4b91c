#include "backends/formats/safetensors/safetensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/formats/safetensors/safetensors_dtype.h"
#include "backends/formats/safetensors/safetensors_header.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kSmallHeaderBytes = 1 << 20;  // the ratio is checked for larger headers only

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
                fmt::format("the file has {} bytes, a safetensors file at least 8", file_bytes),
                "The file is incomplete or of another kind: fetch it again.", {.file = file});
  uint64_t length = little_endian(prefix);
  if (length > kSafetensorsMaxHeader)
    return fail("safetensors.header_too_long",
                fmt::format("the header says that it has {} bytes, the limit is {}", length,
                            kSafetensorsMaxHeader),
                "The file is damaged, or it is not a safetensors file.",
                {.file = file, .offset = 0});
  if (length > file_bytes - kSafetensorsPrefix)
    return fail("safetensors.truncated",
                fmt::format("the header has {} bytes, the file only {} behind its start", length,
                            file_bytes - kSafetensorsPrefix),
                "The file is incomplete: fetch it again.", {.file = file, .offset = file_bytes});
  // Parsed JSON takes many times the memory of its text. A large header without tensors of that
  // size would make a small file exhaust the memory.
  uint64_t payload = file_bytes - kSafetensorsPrefix - length;
  if (length > kSmallHeaderBytes && length > payload)
    return fail("safetensors.header_ratio",
                fmt::format("a header of {} bytes for {} bytes of tensors", length, payload),
                "No model is stored in this way; the file is damaged or made to do harm.",
                {.file = file});
  return length;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(std::string_view start, uint64_t file_bytes,
                                            const std::string& file) {
  MOEC_ASSIGN(uint64_t length,
              header_length(start.substr(0, kSafetensorsPrefix), file_bytes, file));
  if (length > start.size() - kSafetensorsPrefix)
    return fail("safetensors.truncated", "the header is not complete", {}, {.file = file});
  return read_header(start.substr(kSafetensorsPrefix, length), file_bytes, file);
}

Result<SafetensorsHeader> read_safetensors(const std::string& path) {
  MOEC_ASSIGN(RegularFile file, RegularFile::open(path));
  MOEC_ASSIGN(std::string prefix, file.read(0, std::min(file.size(), kSafetensorsPrefix)));
  constexpr uint64_t kPointerStart = 64;
  MOEC_ASSIGN(const std::string first, file.read(0, std::min(file.size(), kPointerStart)));
  MOEC_TRY(check_no_lfs_pointer(first, path));
  MOEC_ASSIGN(uint64_t length, header_length(prefix, file.size(), path));
  MOEC_ASSIGN(std::string start, file.read(0, kSafetensorsPrefix + length));
  MOEC_ASSIGN(SafetensorsHeader header, parse_safetensors(start, file.size(), path));
  header.identity = file.identity();
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
