// Reads arbitrary bytes as the start of a safetensors file. An accepted header must be consistent.
#include "backends/formats/safetensors/safetensors.h"
#include "ir/base/invariant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // The last byte adds payload, so a header may describe a file that is longer than the input.
  uint64_t file_bytes = size + (size == 0 ? 0 : data[size - 1]);
  auto header = moec::parse_safetensors(bytes, file_bytes, "fuzz");
  if (!header) return 0;
  uint64_t at = header->tensors.empty() ? file_bytes : header->tensors.front().begin;
  for (const moec::SafetensorsEntry& entry : header->tensors) {
    MOEC_CHECK(entry.begin == at && entry.end >= at, "ranges are not contiguous");
    at = entry.end;
    if (auto type = moec::ir_type(entry))
      MOEC_CHECK(static_cast<uint64_t>(type->bytes()) == entry.end - entry.begin,
                 "the range does not match the type");
  }
  MOEC_CHECK(at == file_bytes, "the ranges do not fill the file");
  return 0;
}
