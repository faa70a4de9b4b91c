// Measures the speeds of this machine for the forecast of moec plan.
#pragma once

#include <string>

#include "backends/device/check_stop.h"
#include "ir/target/device_profile.h"

namespace moec {

struct MeasureOptions {
  std::string folder = ".";  // on the disk to measure; receives a temporary file
  int threads = 0;           // compute threads; 0: one per core
  double seconds = 10;       // approximate duration, without the time to write the temporary file
  StopRequest stop;          // asked between measurements and at the end
};

// Errors: those of ScratchFile, measure_forms(), measure_ops() and the reads of the file;
// doctor.interrupted.
Result<DeviceProfile> measure_device(const MeasureOptions& options);

}  // namespace moec
