#include "backends/weights/views/match_views.h"

#include <algorithm>
#include <unordered_map>

namespace moec {
namespace {

struct Pair {
  size_t step = 0, element = 0;
};

// The longest common subsequence, found as the longest chain of equal pairs that ascends in both
// lists (Hunt and Szymanski, 1977). That is fast here: the lists are long, but few elements occur
// twice.
std::vector<Pair> common_subsequence(const std::vector<SharedStep>& steps,
                                     const std::vector<std::string>& list) {
  struct Link {
    Pair pair;
    size_t before = SIZE_MAX;  // link of the pair before this one in the chain
  };
  std::unordered_map<std::string_view, std::vector<size_t>> places;
  for (size_t i = list.size(); i-- > 0;) places[list[i]].push_back(i);
  std::vector<Link> links;
  std::vector<size_t> ends;  // the link that ends a chain of n + 1 pairs earliest in the list
  for (size_t step = 0; step < steps.size(); ++step) {
    const auto found = places.find(steps[step].view);
    if (found == places.end()) continue;
    for (const size_t element :
         found->second) {  // descending, so that a chain takes a step only once
      const auto end = std::partition_point(ends.begin(), ends.end(), [&](size_t link) {
        return links[link].pair.element < element;
      });
      links.push_back({{step, element}, end == ends.begin() ? SIZE_MAX : *(end - 1)});
      if (end == ends.end())
        ends.push_back(links.size() - 1);
      else
        *end = links.size() - 1;
    }
  }
  std::vector<Pair> chain;
  for (size_t link = ends.empty() ? SIZE_MAX : ends.back(); link != SIZE_MAX;
       link = links[link].before)
    chain.push_back(links[link].pair);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

void add_side(size_t side, const std::vector<std::string>& list, std::vector<SharedStep>& steps) {
  std::vector<SharedStep> merged;
  Pair at;
  const auto copy_until = [&](const Pair& end) {
    while (at.step < end.step) merged.push_back(std::move(steps[at.step++]));
    while (at.element < end.element) merged.push_back({list[at.element++], {side}});
  };
  for (const Pair& pair : common_subsequence(steps, list)) {
    copy_until(pair);
    merged.push_back(std::move(steps[at.step++]));
    merged.back().sides.push_back(side);
    ++at.element;
  }
  copy_until({steps.size(), list.size()});
  steps = std::move(merged);
}

}  // namespace

std::vector<SharedStep> match_views(std::span<const std::vector<std::string>> lists) {
  std::vector<SharedStep> steps;
  for (size_t side = 0; side < lists.size(); ++side) add_side(side, lists[side], steps);
  return steps;
}

}  // namespace moec
