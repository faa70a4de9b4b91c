// What targets say of forms of weights, for `moec check --explain`.
#pragma once

#include <vector>

#include "backends/targets/explain_rule.h"

namespace moec {

// A text for each entry: the forms, whether they are taken, the reason, confidence and source.
void print_weight_forms(const std::vector<ExplainedForms>& entries);
// The same as one JSON object.
void print_weight_forms_json(const std::vector<ExplainedForms>& entries);

}  // namespace moec
