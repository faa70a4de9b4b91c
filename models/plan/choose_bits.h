// Distributes bits among tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

// Cost of a tensor at a bit width.
struct BitsCost {
  int64_t bits = 0;
  double cost = 0;
};

struct BitsItem {
  int64_t elements = 0;
  std::vector<BitsCost> choices;  // at least one, ascending by bits
};

// Chooses a bit width per item: low total cost with an average of at most `mean_bits` per element.
// Returns the smallest widths if even they exceed `mean_bits`. Greedy: every item starts at its
// smallest width; then the step with the largest cost reduction per bit is applied as long as one
// fits. Steps follow the lower convex hull of an item's choices. Ties go to the first item.
std::vector<int64_t> choose_bits(std::span<const BitsItem> items, double mean_bits);

}  // namespace moec
