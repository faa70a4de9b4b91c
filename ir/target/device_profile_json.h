// The file of a device profile: JSON with the members of DeviceProfile.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"
#include "ir/target/device_profile.h"

namespace moec {

inline constexpr std::string_view kDeviceProfileFormat = "moec device profile";
inline constexpr int64_t kDeviceProfileVersion = 1;

// Parses the text of a profile; `file` is its name for messages. Accepts the report of
// moec doctor --json, too. Errors: device_profile.syntax, device_profile.duplicate_key,
// …missing_field, …unknown_field, …bad_value.
Result<DeviceProfile> parse_device_profile(std::string_view text, const std::string& file);
// Reads a file. Errors as above; device_profile.file (unreadable).
Result<DeviceProfile> read_device_profile(const std::string& path);

// The text of the file, and its members as those of a report.
std::string device_profile_text(const DeviceProfile& profile);
nlohmann::ordered_json device_profile_json(const DeviceProfile& profile);

}  // namespace moec
