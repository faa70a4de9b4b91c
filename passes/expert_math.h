// What the expert forms and the gated MLP share.
#pragma once

#include <vector>

#include "ir/builder.h"
#include "ir/target.h"

namespace moec {

// act(gate) · up, named "hidden".
ValueId gated_product(Builder& b, Activation activation, ValueId gate, ValueId up);

// hidden · weight; below f32, where an expert that was not chosen may have overflowed, 0 where the
// weight is 0, whatever hidden is.
ValueId apply_routing(Builder& b, ValueId hidden, ValueId weight);

// The sum of the terms, one after the other or pairwise. At least one term.
ValueId sum_terms(Builder& b, std::vector<ValueId> terms, SumForm form);

}  // namespace moec
