// Exercises both manifest readers; input that starts with a brace is read as JSON. An accepted
// manifest must be unchanged after it is checked, written and read back.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  auto manifest = input.starts_with('{') ? moec::from_json(input) : moec::from_bytes(input);
  if (!manifest) return 0;
  moec::check_manifest(*manifest);
  auto bytes = moec::to_bytes(*manifest);
  if (!bytes || moec::from_bytes(*bytes).value() != *manifest) std::abort();
  if (auto json = moec::to_json(*manifest))
    if (moec::from_json(*json).value() != *manifest) std::abort();
  return 0;
}
