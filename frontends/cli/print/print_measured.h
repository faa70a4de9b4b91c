// Text output of `moec check --measured` and `moec confirm`.
#pragma once

#include "frontends/jobs/check/measured.h"

namespace moec {

// Prints the ops measured on another unit than predicted, the score per rule, and the verdict.
void print_comparison(const PlacementComparison& comparison, const Measured& measured);

}  // namespace moec
