// Interruption of a measurement, which may take long, between its parts.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Code of the error for an interrupted measurement.
inline constexpr std::string_view kDoctorInterrupted = "doctor.interrupted";

// Returns true if the measurement should end. May be empty.
using StopRequest = std::function<bool()>;

// Error doctor.interrupted: `stop` returns true.
inline Status check_stop(const StopRequest& stop) {
  if (!stop || !stop()) return {};
  return fail(std::string(kDoctorInterrupted), "the measurement was interrupted",
              "run moec doctor again");
}

}  // namespace moec
