// --device NAME=MEMORY[,BANDWIDTH], and the flags that say how shards are spread over devices.
#pragma once

#include <string>
#include <vector>

#include "models/cluster/plan_devices.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct DeviceFlags {
  std::vector<std::string> devices;
  std::string trunk = "layers", loads;
  int64_t replicas = 0;
};
void add_device_flags(CLI::App& command, DeviceFlags& flags);

// Errors: those of parse_devices(); plan.device_value where loads are given and no device is.
Result<DeviceOptions> device_options(const DeviceFlags& flags);

// Errors: plan.device_value (a missing name, or a memory or bandwidth that is not a number above
// 0), plan.device_twice.
Result<std::vector<Device>> parse_devices(const std::vector<std::string>& words);

}  // namespace moec
