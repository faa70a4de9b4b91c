// moec doctor: measures this machine and writes its profile.
#pragma once

#include <string>

#include "backends/device/measure_device.h"
#include "ir/base/output_apart.h"
#include "ir/target/device_profile_json.h"

namespace moec {

struct DoctorOptions {
  MeasureOptions measure;
  UserOutput out{.flag = "--out"};  // receives the profile; an empty path: no file
};

// Checks the options before it measures, so that a refused file costs no time. Errors: those of
// check_user_output(), measure_device() and write_user_file(); doctor.folder (measure.folder is not
// a folder).
Result<DeviceProfile> profile_machine(const DoctorOptions& options);

// A table of the measured speeds.
std::string device_profile_table(const DeviceProfile& profile);

}  // namespace moec
