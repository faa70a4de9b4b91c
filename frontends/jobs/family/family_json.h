// The report of a family check as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "frontends/jobs/family/check_family.h"

namespace moec {

// Axes, concepts, keys and roles. The diagnostics are the errors of the config, or what is wrong
// with the tensors of the checkpoint.
nlohmann::ordered_json family_json(const FamilyReport& report);

}  // namespace moec
