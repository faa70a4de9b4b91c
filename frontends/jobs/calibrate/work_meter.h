// Progress of a calibration, in bytes of hidden states that passed through a shard.
#pragma once

#include <cstdint>
#include <string>

#include "frontends/jobs/calibrate/calibrate_options.h"
#include "frontends/measure/text.h"
#include "ir/model/plan.h"

namespace moec {

struct WorkMeter {
  const CalibrateOptions& options;
  uint64_t total = 0;  // total work of the command
  void tell(uint64_t bytes, const std::string& part) const {
    if (options.progress) options.progress(bytes, total, part);
  }
};

inline uint64_t window_bytes(const Plan& plan, const Text& text) {
  return static_cast<uint64_t>(text.window * plan.model.hidden) * sizeof(float);
}

// Bytes of all windows.
inline uint64_t text_bytes(const Plan& plan, const Text& text) {
  return static_cast<uint64_t>(text.windows()) * window_bytes(plan, text);
}

}  // namespace moec
