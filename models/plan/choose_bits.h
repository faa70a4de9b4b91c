// Divides bits among tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

// What a tensor costs with so many bits for each of its elements.
struct BitsCost {
  int64_t bits = 0;
  double cost = 0;
};

struct BitsItem {
  int64_t elements = 0;
  std::vector<BitsCost> choices;  // at least one, with rising bits
};

// The bits of each item, for a small sum of costs with at most `mean_bits` for each element on
// average; the fewest of all items where even those are more. All items begin with the fewest bits;
// then the step that saves most for each bit is taken as long as a step fits. Steps lead along the
// lower convex hull of an item's choices. Of equal steps, that of the first item is taken.
std::vector<int64_t> choose_bits(std::span<const BitsItem> items, double mean_bits);

}  // namespace moec
