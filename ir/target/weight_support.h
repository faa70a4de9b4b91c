// Determines which storage forms of weights a target supports, per form of projections.
#pragma once

#include <string>
#include <vector>

#include "ir/model/weight_policy.h"
#include "ir/target/target.h"

namespace moec {

// True if `entry`, an element of TargetWeightForms::forms, matches the form: it is the form's text,
// or "int4-lut:g*" for groups of any size.
bool names_weight_form(std::string_view entry, const WeightForm& form);

// Returns the target's first entry that matches `form` for `projection`. Null: the target does not
// support the form.
const TargetWeightForms* find_weight_form(const Target& target, const WeightForm& form,
                                          ProjectionForm projection);

// True for float, and for a form whose entry does not reject it.
bool takes_weight_form(const Target& target, const WeightForm& form, ProjectionForm projection);

// Returns the form of projections to use with the policy: the target's preferred one, unless the
// target supports a form of the policy only with the other one.
ProjectionForm projection_for(const Target& target, const WeightPolicy& policy);

// Error weights.form: the target does not support a form of the policy for its form of projections.
// The message names the form, the target, the reason and the supported forms.
Status check_weight_forms(const Target& target, const WeightPolicy& policy);

// Error weights.copy: the policy copies codes, but the checkpoint has no codes, or has codes that
// no file format can store. The message names the checkpoint's codes and the supported forms.
Status check_copied_codes(const Target& target, const WeightPolicy& policy,
                          const StoredWeights& stored);

}  // namespace moec
