// Tensor math shared by the expert forms and the gated MLP.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/builder.h"
#include "ir/graph/composite_operands.h"
#include "ir/target/target.h"

namespace moec {

// x · w, plus bias if it is valid; named `name`.
ValueId biased_linear(Builder& b, ValueId x, ValueId w, ValueId bias, std::string name);

// gate · x and up · x, with biases if present, named "gate" and "up". `gate` is invalid for an MLP
// without a gate.
struct GateAndUp {
  ValueId gate, up;
};
GateAndUp gate_and_up(Builder& b, ValueId x, const MlpParts<ValueId>& weights,
                      const MlpParts<ValueId>& biases);

// act(gate, up) of ir/OPS.md, named "hidden".
ValueId gated_product(Builder& b, const Gating& gating, ValueId gate, ValueId up);

// hidden · weight, but 0 wherever the weight is 0, whatever `hidden` is: an expert that was not
// chosen may have overflowed, even in f32.
ValueId apply_routing(Builder& b, ValueId hidden, ValueId weight);

// gated_product() of an expert whose input is multiplied by the routing weight. gate and up are
// linear in the input, so apply_routing() multiplies them instead.
ValueId product_of_routed(Builder& b, const Gating& gating, ValueId gate, ValueId up,
                          ValueId weight);

// Σ_e routing[e] · biases[e]. `routing` is a token tensor with one channel per bias [d].
ValueId routed_biases(Builder& b, ValueId routing, const std::vector<ValueId>& biases);

// Adds the terms, of which there must be at least one, sequentially or pairwise.
ValueId sum_terms(Builder& b, std::vector<ValueId> terms, SumForm form);

}  // namespace moec
