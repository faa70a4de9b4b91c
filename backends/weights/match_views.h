// The views of several sides in one order.
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

// The lists of all sides as one: each element is in one step, in an order that agrees with each
// list. Of two sides as many as possible share steps; a further side shares as many as possible
// with the order of those before it.
std::vector<SharedStep> match_views(std::span<const std::vector<std::string>> lists);

}  // namespace moec
