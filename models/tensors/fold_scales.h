// Moves powers of two from an up projection to its down projection. With an activation of the gate
// alone, an MLP is linear in its up projection: 2^-k · up with 2^k · down gives the same results,
// while the weights of both may fit an element type that one of them exceeded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/shard.h"

namespace moec {

// The weights of one gated MLP, as ops of a shard in form `model`.
struct UpAndDown {
  OpId up, down;
  std::optional<OpId> up_bias;
};

// All pairs of the shard between which a power of two may move.
std::vector<UpAndDown> up_and_down(const Shard& shard);

// The exponents k by the text of up's view.
using ScaleFolds = std::map<std::string, int>;

// The view times 2^exponent. The product is made in f32, before a cast that ends the view.
WeightView scaled(WeightView view, int exponent);

// Moves the powers of two of `folds`; pairs without an entry stay as they are.
Shard with_folded_scales(Shard shard, const ScaleFolds& folds);

}  // namespace moec
