// --device NAME=BYTES[,BANDWIDTH] and what goes with it.
#pragma once

#include <string>
#include <vector>

#include "models/plan/plan_devices.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

// As the user gives them.
struct DeviceFlags {
  std::vector<std::string> devices;
  std::string trunk = "layers", loads;
  int64_t replicas = 0;
};
void add_device_flags(CLI::App& command, DeviceFlags& flags);

// Errors: those of parse_devices(); plan.device_value for loads without a device.
Result<DeviceOptions> device_options(const DeviceFlags& flags);

// Errors plan.device_value (no name, or bytes or bandwidth that are no number above 0) and
// plan.device_twice.
Result<std::vector<Device>> parse_devices(const std::vector<std::string>& words);

}  // namespace moec
