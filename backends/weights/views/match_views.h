// Merges the views that several sides ask for into one order.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace moec {

// A view that one or several sides ask for.
struct SharedStep {
  std::string view;           // its text
  std::vector<size_t> sides;  // ascending; the first one reads
};

// Merges the lists of all sides: each element of a list belongs to one step, and the order of the
// steps agrees with each list. Two sides share as many steps as possible; each further side shares
// as many as possible with the merged order of those before it.
std::vector<SharedStep> match_views(std::span<const std::vector<std::string>> lists);

}  // namespace moec
