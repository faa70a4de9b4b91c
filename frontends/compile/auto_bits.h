// Chooses the bits of --weights auto:BITS.
#pragma once

#include <string>

#include "backends/weights/calibration/sensitivity.h"
#include "ir/model/weight_policy.h"
#include "ir/target/target.h"

namespace moec {

// Fills in policy.chosen: for each item auto:BITS, the forms of the tensors of experts in its
// layers, with so many bits of codes for each weight on average and the least divergence that is to
// be expected (expected_kl()). Scales and tables come on top, as with other forms. The forms are
// those of the target's four bits with other numbers of bits, as far as the target has them, and
// int8. Error weights.auto: BITS are fewer or more than those of all these forms.
Status choose_forms(const Target& target, const Sensitivity& sensitivity, WeightPolicy& policy);

// The same with the sensitivity in the folder of a calibration; a policy that chooses nothing is
// left as it is. Further errors: weights.auto without a folder, those of read_sensitivity().
Status choose_forms(const Target& target, const std::string& calibration, WeightPolicy& policy);

// The bits of the codes of a form; 0 for floats.
int64_t code_bits(const WeightForm& form);

}  // namespace moec
