#include "models/plan/choose_bits.h"

#include <algorithm>

namespace moec {
namespace {

// A step from one choice of an item to the next one on its hull.
struct BitsStep {
  size_t item = 0;
  int64_t to = 0;    // bits
  double more = 0;   // additional bits over all elements
  double saved = 0;  // cost per additional bit
};

double slope(const BitsCost& from, const BitsCost& to) {
  return (from.cost - to.cost) / static_cast<double>(to.bits - from.bits);
}

// The lower convex hull: choices with descending costs and descending savings per bit.
std::vector<BitsCost> hull_of(const std::vector<BitsCost>& choices) {
  std::vector<BitsCost> hull;
  for (const BitsCost& choice : choices) {
    if (!hull.empty() && choice.cost >= hull.back().cost) continue;
    while (hull.size() > 1 &&
           slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), choice))
      hull.pop_back();
    hull.push_back(choice);
  }
  return hull;
}

}  // namespace

std::vector<int64_t> choose_bits(std::span<const BitsItem> items, double mean_bits) {
  std::vector<int64_t> chosen;
  std::vector<BitsStep> steps;
  // Bits that remain after the smallest widths. If negative, no step fits, and these widths are the
  // result.
  double left = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::vector<BitsCost> hull = hull_of(items[i].choices);
    const auto elements = static_cast<double>(items[i].elements);
    chosen.push_back(hull.front().bits);
    left += (mean_bits - static_cast<double>(hull.front().bits)) * elements;
    for (size_t c = 1; c < hull.size(); ++c)
      // `cost` is the cost of a whole item, so slope() is divided by the number of elements.
      steps.push_back({i, hull[c].bits,
                       static_cast<double>(hull[c].bits - hull[c - 1].bits) * elements,
                       slope(hull[c - 1], hull[c]) / elements});
  }
  // Savings descend along a hull, so the stable sort keeps the steps of an item in sequence.
  std::stable_sort(steps.begin(), steps.end(),
                   [](const BitsStep& a, const BitsStep& b) { return a.saved > b.saved; });
  std::vector<bool> ended(items.size(), false);  // an earlier step of the item did not fit
  for (const BitsStep& step : steps) {
    ended[step.item] = ended[step.item] || step.more > left;
    if (ended[step.item]) continue;
    left -= step.more;
    chosen[step.item] = step.to;
  }
  return chosen;
}

}  // namespace moec
