// The checkpoint's settings for sampling, for engines that read them from the export.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

struct SamplingDefaults {
  std::optional<bool> do_sample;
  std::optional<double> temperature;  // 0: greedy
  std::optional<double> top_p;        // in (0, 1]
  std::optional<int64_t> top_k;       // 0: no limit
};

// Reads generation_config.json of the checkpoint's folder. Absent settings, and values outside
// their ranges, have no value; a GGUF file has none at all. Errors: json.* and those of
// read_text_file().
Result<SamplingDefaults> sampling_defaults(const std::string& source);

}  // namespace moec
