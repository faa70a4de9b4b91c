// Tensor math shared by the expert forms and the gated MLP.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/builder.h"
#include "ir/graph/composite_operands.h"
#include "ir/target/target.h"

namespace moec {

// x · w (+ bias, where it is valid), named `name`.
ValueId biased_linear(Builder& b, ValueId x, ValueId w, ValueId bias, std::string name);

// gate · x and up · x, with biases where there are any, named "gate" and "up". An MLP without a
// gate has no gate value.
struct GateAndUp {
  ValueId gate, up;
};
GateAndUp gate_and_up(Builder& b, ValueId x, const MlpParts<ValueId>& weights,
                      const MlpParts<ValueId>& biases);

// act(gate, up) of ir/OPS.md, named "hidden".
ValueId gated_product(Builder& b, const Gating& gating, ValueId gate, ValueId up);

// hidden · weight, and 0 where the weight is 0, whatever hidden is: an expert that was not chosen
// may have overflowed, in f32 as well.
ValueId apply_routing(Builder& b, ValueId hidden, ValueId weight);

// gated_product of an expert whose input is multiplied by the routing weight: gate and up, which
// are linear in it, are instead, as apply_routing does it.
ValueId product_of_routed(Builder& b, const Gating& gating, ValueId gate, ValueId up,
                          ValueId weight);

// Σ_e routing[e] · biases[e] over token channels: routing has one channel for each bias [d].
ValueId routed_biases(Builder& b, ValueId routing, const std::vector<ValueId>& biases);

// The sum of the terms, one after the other or pairwise. At least one term.
ValueId sum_terms(Builder& b, std::vector<ValueId> terms, SumForm form);

}  // namespace moec
