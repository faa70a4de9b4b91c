#include "models/cluster/prompt_classes.h"

#include <algorithm>
#include <numeric>

#include "ir/base/at.h"

namespace moec {
namespace {

template <class Number>
std::vector<double> normalized(const std::vector<Number>& counts) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> shares;
  if (sum == 0) return shares;
  for (const Number count : counts) shares.push_back(static_cast<double>(count) / sum);
  return shares;
}

}  // namespace

std::vector<PromptClass> prompt_classes(const ExpertProfile* profile, const ExpertGrid& grid) {
  std::vector<PromptClass> classes(1);
  classes.front().name = kAllPrompts;
  for (const int64_t number : grid.layers) {
    const LayerProfile* layer = profile == nullptr ? nullptr : find_layer(*profile, number);
    auto& shares = classes.front().shares.emplace_back();
    if (layer == nullptr)
      shares = normalized(std::vector<int64_t>(static_cast<size_t>(grid.experts), 1));
    else
      shares = layer->mass.empty() ? normalized(layer->selections) : normalized(layer->mass);
  }
  if (profile == nullptr || profile->categories.size() < 2) return classes;
  for (size_t c = 0; c < profile->categories.size(); ++c) {
    PromptClass own{profile->categories[c].name, {}};
    for (const int64_t number : grid.layers) {
      const auto& counts = find_layer(*profile, number)->by_category;
      own.shares.push_back(counts.empty() ? std::vector<double>() : normalized(counts[c]));
    }
    const auto is_empty = [](const std::vector<double>& shares) { return shares.empty(); };
    if (!std::all_of(own.shares.begin(), own.shares.end(), is_empty))
      classes.push_back(std::move(own));
  }
  return classes;
}

double share_on(const PromptClass& prompts, const ExpertGrid& grid, size_t layer,
                const ExpertSets& sets) {
  const std::vector<double>& shares = prompts.shares[layer];
  const auto found = sets.layers.find(grid.layers[layer]);
  if (shares.empty() || found == sets.layers.end()) return 1;
  double sum = 0;
  for (const int64_t expert : found->second) sum += at(shares, expert);
  // Rounding may raise the sum of all shares above 1.
  return std::min(sum, 1.0);
}

double kept_share(const PromptClass& prompts, const ExpertGrid& grid, const ExpertSets& sets) {
  double sum = 0;
  for (size_t layer = 0; layer < grid.layers.size(); ++layer)
    sum += share_on(prompts, grid, layer, sets);
  return sum / static_cast<double>(grid.layers.size());
}

}  // namespace moec
