// OUT/expected_placement.json: what scripts/confirm_on_mac.py compares a device's plan with.
#pragma once

#include <string>

#include "frontends/check/check_folder.h"

namespace moec {

inline constexpr std::string_view kExpectedPlacement = "expected_placement.json";

// For each graph of the export its shard, width and digest, and for each op that computes its name
// in the package, what it is, its predicted unit, and the rule where that is not the target's.
std::string expected_placement(const CheckReport& report);

}  // namespace moec
