// OUT/expected_placement.json: the prediction that scripts/confirm_on_mac.py compares with a
// device.
#pragma once

#include <string>

#include "frontends/jobs/check/check_folder.h"

namespace moec {

// The file's text: for each graph its shard, width and digest, and for each op that computes its
// name in the package, its kind, its predicted unit, and the rule if that is not the target's unit.
std::string expected_placement(const CheckReport& report);

}  // namespace moec
