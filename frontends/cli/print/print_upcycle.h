// Prints the report of moec upcycle.
#pragma once

#include "frontends/jobs/upcycle/upcycle_model.h"

namespace moec {

void print_upcycle(const UpcycleReport& report, double seconds);

}  // namespace moec
