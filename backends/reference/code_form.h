// Names the stored forms of coded weights, for notes.
#pragma once

#include <string>

#include "ir/graph/weight_view.h"

namespace moec {

// Returns the form of the codes that the view decodes, e.g. "u4 codes with zero points,
// transposed", "palette of u4" or "q4_0 blocks"; empty for a view without codes.
std::string code_form(const WeightView& view);

}  // namespace moec
