// The memory that the index of the checkpoint and the plan of one target take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/base/process_memory.h"

namespace moec {

// As the system counts it: it depends on names and shapes, so it is measured when it is there. What
// was there when the object was made does not count.
class PlanMemory {
 public:
  uint64_t held() const { return grown(process_memory().own, before_.own); }
  // The most that was held at one time. A peak before the plan hides a lower one.
  uint64_t peak() const {
    const uint64_t most = process_memory().peak;
    return most > before_.peak ? grown(most, before_.resident) : held();
  }

 private:
  static uint64_t grown(uint64_t now, uint64_t before) { return now - std::min(now, before); }
  ProcessMemory before_ = process_memory();
};

// What exceeds the part of the index and the plan in what export_reader() sets aside in any case.
inline uint64_t beyond_usual(uint64_t bytes) {
  constexpr uint64_t kUsualBytes = uint64_t{8} << 20;
  return bytes - std::min(bytes, kUsualBytes);
}

}  // namespace moec
