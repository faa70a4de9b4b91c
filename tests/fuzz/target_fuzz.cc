// Reads arbitrary text as a user's target file and restricts the target to the first chip of each
// family.
#include "backends/targets/load_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto target = moec::load_target({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!target) return 0;
  for (const moec::ChipFamily& family : target->chips) moec::for_chip(*target, family.name).value();
  return 0;
}
