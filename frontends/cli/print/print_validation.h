// What `moec validate` prints for people.
#pragma once

#include "frontends/jobs/validate/validate_model.h"

namespace moec {

// A table of the shards alone, one of the routers, one of the shards chained, and the verdict.
void print_validation(const ValidationReport& report);

}  // namespace moec
