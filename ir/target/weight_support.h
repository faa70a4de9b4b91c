// Which forms of weights a target takes, and for which form of projections.
#pragma once

#include <string>
#include <vector>

#include "ir/model/weight_policy.h"
#include "ir/target/target.h"

namespace moec {

// Whether the text of an entry of TargetWeightForms::forms names the form: the form's own text, or
// "int4-lut:g*" for groups of any size.
bool names_weight_form(std::string_view entry, const WeightForm& form);

// What the target says of the form for projections of this kind: the first entry that names it.
// Null: the target does not have it.
const TargetWeightForms* find_weight_form(const Target& target, const WeightForm& form,
                                          ProjectionForm projection);

// Float, or a form that the target has and does not refuse.
bool takes_weight_form(const Target& target, const WeightForm& form, ProjectionForm projection);

// The other form of projections if the target takes some form of the policy for that one only;
// else the target's own.
ProjectionForm projection_for(const Target& target, const WeightPolicy& policy);

// Error weights.form: the target does not take a form of the policy for its form of projections.
// The message names the form, the target, the reason and the forms that it takes.
Status check_weight_forms(const Target& target, const WeightPolicy& policy);

// Error weights.copy: the policy copies codes, and the checkpoint has none, or such as no format
// has a form for. The message names what it has, and the forms that the target takes.
Status check_copied_codes(const Target& target, const WeightPolicy& policy,
                          const StoredWeights& stored);

}  // namespace moec
