// Effect on routing weights when only some experts of a router remain.
#pragma once

#include <cstdint>

#include "ir/base/enum_table.h"
#include "ir/graph/ops.h"

namespace moec {

//   masked    equal to the whole router with the other experts masked: weights of the picked
//             experts do not depend on the others
//   inflated  different: shares of a softmax over all experts grow, and they are weights without
//             normalisation or terms of biased selection scores
//   unknown   moec does not know the architecture
enum class KeptRouting : uint8_t { masked, inflated, unknown };
constexpr auto enum_names(KeptRouting) {
  return name_table<KeptRouting>({"masked", "inflated", "unknown"});
}

// Returns masked for sigmoids, whose weights are independent, and for normalised softmax weights;
// inflated for other softmax shares. `choice_bias`: the router adds a bias to scores for selection.
KeptRouting kept_routing(const Router& router, bool choice_bias);

}  // namespace moec
