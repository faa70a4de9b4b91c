// What a run takes of the machine's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/runtime/session/session.h"

namespace moec {

struct MemoryItem {
  std::string what;
  uint64_t bytes = 0;
};

struct MemoryReport {
  std::vector<MemoryItem> items;
  uint64_t peak = 0;     // the most that the process had so far, as the system counts it
  uint64_t machine = 0;  // memory of the machine
};

MemoryReport memory_report(const Session& session);

// A line for each item and for the peak: MB of 10^6 bytes, and percent of the machine's memory.
std::string memory_table(const MemoryReport& report);

}  // namespace moec
