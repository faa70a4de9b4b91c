// Measures the memory of the checkpoint's index and the plan of one target.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/base/process_memory.h"

namespace moec {

// Memory that the process has allocated since this object was constructed, as the system counts it.
// It depends on names and shapes, so it is measured and not computed.
class PlanMemory {
 public:
  uint64_t held() const { return grown(process_memory().own, before_.own); }
  // Maximum held at one time. Falls back to held() if an earlier, higher peak of the process hides
  // this one.
  uint64_t peak() const {
    const uint64_t most = process_memory().peak;
    return most > before_.peak ? grown(most, before_.resident) : held();
  }

 private:
  static uint64_t grown(uint64_t now, uint64_t before) { return now - std::min(now, before); }
  ProcessMemory before_ = process_memory();
};

// Bytes of the index and the plan beyond the 8 MiB that export_reader() always reserves for them.
inline uint64_t beyond_usual(uint64_t bytes) {
  constexpr uint64_t kUsualBytes = uint64_t{8} << 20;
  return bytes - std::min(bytes, kUsualBytes);
}

}  // namespace moec
