// The broken rules of a check as a SARIF 2.1.0 log (OASIS standard, 27 March 2020).
#pragma once

#include <string>

#include "frontends/check/check_folder.h"

namespace moec {

// One run. Its rules are those of the target, with help text; its results are the report's rule
// findings, each with the shard's file as artifact and shard and op as logical location.
std::string to_sarif(const CheckReport& report);

}  // namespace moec
