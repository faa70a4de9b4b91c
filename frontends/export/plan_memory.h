// The memory of an export: of the checkpoint's index and the plan of one target, and of reading.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/weights/views/weight_reader.h"
#include "frontends/compile/calibrated_inputs.h"
#include "frontends/export/options/export_options.h"
#include "ir/base/process_memory.h"
#include "ir/model/plan.h"

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

struct OpenReader {
  WeightReader reader;
  int workers = 1;  // jobs that fit the memory
};

// Opens the reader with this target's share of the memory. Not all targets are planned yet, so the
// others are assumed to be as large as this one. Errors: those of WeightReader::open() and
// export_reader(); encode.over_budget (the memory does not suffice to encode with the calibration).
Result<OpenReader> open_reader(const ExportOptions& options, const Plan& plan, size_t targets,
                               const PlanMemory& planned, const EncoderMemory& encoder);

}  // namespace moec
