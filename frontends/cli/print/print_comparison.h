// What `moec compare` prints for people.
#pragma once

#include "frontends/jobs/compare/compare_report.h"

namespace moec {

// The predictions, a table of the shards, one of the routers, and the verdict.
void print_comparison(const CompareReport& report);

}  // namespace moec
