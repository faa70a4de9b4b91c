// Passes and what they made of a shard as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "frontends/jobs/opt/optimise.h"

namespace moec {

// The shard's name, its IR as text, and the passes with their times and numbers of ops.
nlohmann::ordered_json optimised_json(const Optimised& optimised);

// All passes, with the forms that they take and return.
nlohmann::ordered_json passes_json();

}  // namespace moec
