// Chooses the bit widths of expert weights for --weights auto:BITS.
#pragma once

#include <string>

#include "backends/weights/calibration/sensitivity.h"
#include "ir/model/weight_policy.h"
#include "ir/target/target.h"

namespace moec {

// For each item auto:BITS of `policy`, sets policy.chosen to a weight form for every expert tensor
// in the item's layers. Minimizes the expected divergence (expected_kl()) with an average of at
// most BITS bits per weight; scales and palettes are not counted. Candidates are the item's
// four-bit form, the same form with 2, 3 or 6 bits, and int8, each only if the target supports it.
// Error: weights.auto (the target supports no candidate, or BITS is outside their range).
Status choose_forms(const Target& target, const Sensitivity& sensitivity, WeightPolicy& policy);

// Does the same with the sensitivity from the folder `calibration`. Does nothing if `policy` has no
// item auto:BITS. Further errors: weights.auto if `calibration` is empty; those of
// read_sensitivity().
Status choose_forms(const Target& target, const std::string& calibration, WeightPolicy& policy);

// Returns the bits per code of a weight form; 0 for floats.
int64_t code_bits(const WeightForm& form);

}  // namespace moec
