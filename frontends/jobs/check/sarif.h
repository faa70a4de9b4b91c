// The rules that a check found broken, as a SARIF 2.1.0 log (OASIS standard, 27 March 2020).
#pragma once

#include <string>

#include "frontends/jobs/check/check_folder.h"

namespace moec {

// A log of one run. Its rules are all rules of the target, with help text. Its results are the rule
// findings of the report; each has the shard's file as artifact, and shard and op as logical
// location.
std::string to_sarif(const CheckReport& report);

}  // namespace moec
