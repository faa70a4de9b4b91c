// Exercises the TFLite reader. An accepted shard must be valid, and its text must parse to the same
// shard. Weights are never read, so the file may be larger than the input.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "backends/formats/tflite/read_tflite.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kFileBytes = uint64_t{1} << 33;
  // Flatbuffers are read in place, so they must be aligned.
  const std::string copy(reinterpret_cast<const char*>(data), size);
  const auto bytes = std::as_bytes(std::span(copy));
  auto read = moec::parse_tflite(bytes, "shard.tflite", kFileBytes);
  if (!read) return 0;
  if (moec::has_error(moec::verify(read->shard))) std::abort();
  auto parsed = moec::parse_shard(moec::print(read->shard));
  if (!parsed || *parsed != read->shard) std::abort();
  return 0;
}
