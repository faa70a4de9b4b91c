// What `moec family check` prints, for people and as JSON.
#pragma once

#include "frontends/hf/check_family.h"

namespace moec {

// The errors of the config are left to the caller.
void print_family_report(const FamilyReport& report);
void print_family_report_json(const FamilyReport& report);

}  // namespace moec
