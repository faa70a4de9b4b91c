// What `moec family check` prints for people.
#pragma once

#include "frontends/jobs/family/check_family.h"

namespace moec {

// The errors of the config are left to the caller.
void print_family_report(const FamilyReport& report);

}  // namespace moec
