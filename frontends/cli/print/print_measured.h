// What `moec check --measured` prints for people.
#pragma once

#include "frontends/jobs/check/measured.h"

namespace moec {

// The ops that were measured elsewhere than predicted, the score of each rule, and the verdict.
void print_comparison(const PlacementComparison& comparison, const Measured& measured);

}  // namespace moec
