// Measures the speeds of this machine for the forecast of moec plan.
#pragma once

#include <cstdint>
#include <string>

#include "backends/device/check_stop.h"
#include "backends/device/measure_products.h"
#include "ir/target/device_profile.h"

namespace moec {

struct MeasureOptions {
  std::string folder = ".";  // on the disk to measure; receives a temporary file
  int threads = 0;           // compute threads; 0: one per core
  double seconds = 10;       // approximate duration, without the time to write the temporary file
  // Size of the temporary file and of the measured memory, a multiple of 1 MiB. The default is
  // larger than the last cache of usual CPUs.
  uint64_t bytes = uint64_t{256} << 20;
  ProductGrid products;
  StopRequest stop;  // asked before each measured call and at the end
};

// Errors: those of ScratchFile, measure_forms(), measure_ops() and the reads of the file;
// doctor.interrupted.
Result<DeviceProfile> measure_device(const MeasureOptions& options);

}  // namespace moec
