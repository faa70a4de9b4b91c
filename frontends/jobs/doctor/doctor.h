// moec doctor: measures this machine and writes its profile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backends/device/measure_device.h"
#include "backends/device/measure_products.h"
#include "ir/target/device_profile.h"

namespace moec {

// The profile as the JSON text of its file, which parse_device_profile() reads, or as members of a
// report.
std::string device_profile_text(const DeviceProfile& profile);
nlohmann::ordered_json device_profile_json(const DeviceProfile& profile);

// A table of the measured speeds.
std::string device_profile_table(const DeviceProfile& profile);

}  // namespace moec
