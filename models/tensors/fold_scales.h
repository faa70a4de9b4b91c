// Moves powers of two from an up projection to its down projection. If the activation acts only on
// the gate, an MLP is linear in its up projection: 2^-k · up with 2^k · down produces the same
// results. Both may then fit an element type in which one of them overflowed.
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

// All pairs of the shard that allow moving a power of two.
std::vector<UpAndDown> up_and_down(const Shard& shard);

// The exponents k, keyed by the text of up's view.
using ScaleFolds = std::map<std::string, int>;

// The view times 2^exponent. The product is computed in f32, before a cast at the end of the view.
WeightView scaled(WeightView view, int exponent);

// Moves the powers of two of `folds`; pairs without an entry do not change.
Shard with_folded_scales(Shard shard, const ScaleFolds& folds);

}  // namespace moec
