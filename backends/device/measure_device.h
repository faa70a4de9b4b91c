// Measures the speeds of this machine for the forecast of moec plan.
#pragma once

#include <functional>
#include <string>

#include "ir/target/device_profile.h"

namespace moec {

struct MeasureOptions {
  std::string folder = ".";    // on the disk to measure; receives a temporary file
  int threads = 0;             // compute threads; 0: one per core
  double seconds = 10;         // approximate duration, without the time to write the temporary file
  std::function<bool()> stop;  // asked between measurements; true ends with doctor.interrupted
};

// Errors: those of ScratchFile, measure_forms(), measure_ops() and the reads of the file.
Result<DeviceProfile> measure_device(const MeasureOptions& options);

}  // namespace moec
