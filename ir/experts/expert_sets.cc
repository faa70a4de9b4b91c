#include "ir/experts/expert_sets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "ir/base/parse_number.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

class SetReader {
 public:
  SetReader(const ExpertGrid& grid, const std::string& what) : grid_(grid), what_(what) {}

  Result<ExpertSets> read(std::string_view text) {
    // Line breaks and comments occur in files with masks. Semicolons separate items on a line.
    MOEC_TRY(for_each_part(text, "\n", [&](std::string_view line) {
      return for_each_part(line.substr(0, line.find('#')), ";", [&](std::string_view item) {
        const std::string_view words = trim_spaces(item);
        return words.empty() ? Status() : read_item(words);
      });
    }));
    // The item `*` is applied last, so that it can precede the items of single layers.
    if (others_)
      for (const int64_t layer : grid_.layers) sets_.layers.try_emplace(layer, *others_);
    return std::move(sets_);
  }

 private:
  tl::unexpected<Diagnostics> error(std::string code, std::string_view item, std::string cause,
                                    std::string next) const {
    return fail(std::move(code), fmt::format("{}: '{}' {}", what_, item, cause), std::move(next));
  }

  Status read_item(std::string_view item) {
    const size_t colon = item.find(':');
    if (colon == std::string_view::npos) return no_item(item);
    const std::string_view where = trim_spaces(item.substr(0, colon));
    MOEC_ASSIGN(const std::vector<int64_t> experts, experts_of(item.substr(colon + 1), item));
    if (where == "*") {
      if (others_) return twice(item, "all other layers");
      others_ = experts;
      return {};
    }
    const auto layers = where.starts_with('L') ? parse_range(where.substr(1)) : std::nullopt;
    if (!layers) return no_item(item);
    return add(*layers, experts, item);
  }

  tl::unexpected<Diagnostics> no_item(std::string_view item) const {
    return error("experts.item", item, "is not a layer with its experts",
                 "write items such as L0:0-7 or L1:1,3,5, separated by semicolons");
  }

  tl::unexpected<Diagnostics> twice(std::string_view item, const std::string& layer) const {
    return error("experts.twice", item, fmt::format("names {} again", layer),
                 "name each layer once");
  }

  Status add(NumberRange layers, const std::vector<int64_t>& experts, std::string_view item) {
    const auto first = std::lower_bound(grid_.layers.begin(), grid_.layers.end(), layers.first);
    const auto last = std::upper_bound(first, grid_.layers.end(), layers.last);
    // In a range of MoE layers only, the number of grid layers equals the length of the range.
    if (last - first != layers.last - layers.first + 1)
      return error("experts.layer", item, "names a layer that is not an MoE layer of the model",
                   fmt::format("the layers with experts are {}", ranges_text(grid_.layers)));
    for (auto layer = first; layer != last; ++layer)
      if (!sets_.layers.try_emplace(*layer, experts).second)
        return twice(item, fmt::format("layer {}", *layer));
    return {};
  }

  Result<std::vector<int64_t>> experts_of(std::string_view text, std::string_view item) const {
    // A set sorts the experts, as has() needs, and merges an expert that the item names twice.
    std::set<int64_t> experts;
    MOEC_TRY(for_each_part(text, ",", [&](std::string_view part) -> Status {
      const auto range = parse_range(trim_spaces(part));
      if (!range) return no_item(item);
      if (range->last >= grid_.experts)
        return error("experts.expert", item,
                     fmt::format("names expert {}, which does not exist", range->last),
                     fmt::format("the experts are 0 to {}", grid_.experts - 1));
      for (int64_t e = range->first; e <= range->last; ++e) experts.insert(e);
      return {};
    }));
    return std::vector<int64_t>(experts.begin(), experts.end());
  }

  const ExpertGrid& grid_;
  const std::string& what_;
  ExpertSets sets_;
  std::optional<std::vector<int64_t>> others_;  // of the item *
};

}  // namespace

bool ExpertSets::has(int64_t layer, int64_t expert) const {
  const auto found = layers.find(layer);
  return found == layers.end() ||
         std::binary_search(found->second.begin(), found->second.end(), expert);
}

int64_t ExpertSets::count(int64_t layer, const ExpertGrid& grid) const {
  const auto found = layers.find(layer);
  return found == layers.end() ? grid.experts : std::ssize(found->second);
}

std::vector<std::vector<int64_t>> kept_slots(const ExpertSets& mask,
                                             const std::vector<int64_t>& layers, int64_t experts,
                                             int64_t slots) {
  std::vector<std::vector<int64_t>> kept;
  for (const int64_t layer : layers) {
    kept.emplace_back();
    const auto found = mask.layers.find(layer);
    if (found == mask.layers.end() || std::ssize(found->second) == experts) continue;
    kept.back() = found->second;
    // Null slots stay available, because a mask restricts experts only.
    for (int64_t slot = experts; slot < slots; ++slot) kept.back().push_back(slot);
  }
  const bool all =
      std::all_of(kept.begin(), kept.end(), [](const auto& layer) { return layer.empty(); });
  return all ? std::vector<std::vector<int64_t>>() : kept;
}

ExpertSets in_both(const ExpertSets& a, const ExpertSets& b) {
  ExpertSets both = a;
  for (const auto& [layer, experts] : b.layers) {
    const auto [found, is_new] = both.layers.try_emplace(layer, experts);
    // `a` has all experts of this layer, so the intersection is the entry of `b`.
    if (is_new) continue;
    std::erase_if(found->second,
                  [&, layer = layer](int64_t expert) { return !b.has(layer, expert); });
  }
  return both;
}

Result<ExpertSets> parse_expert_sets(std::string_view text, const ExpertGrid& grid,
                                     const std::string& what) {
  return SetReader(grid, what).read(text);
}

Result<std::vector<int64_t>> parse_expert_layers(std::string_view text, const ExpertGrid& grid,
                                                 const std::string& what) {
  std::set<int64_t> layers;
  MOEC_TRY(for_each_part(text, ",", [&](std::string_view part) -> Status {
    const auto range = parse_range(trim_spaces(part));
    // The ends must be MoE layers; layers between them without experts are skipped.
    const bool known = range &&
                       std::binary_search(grid.layers.begin(), grid.layers.end(), range->first) &&
                       std::binary_search(grid.layers.begin(), grid.layers.end(), range->last);
    if (!known)
      return fail("experts.layer",
                  fmt::format("{}: '{}' names no layers with experts", what, trim_spaces(part)),
                  fmt::format("the layers with experts are {}", ranges_text(grid.layers)));
    for (const int64_t layer : grid.layers)
      if (layer >= range->first && layer <= range->last) layers.insert(layer);
    return {};
  }));
  return std::vector<int64_t>(layers.begin(), layers.end());
}

std::string to_string(const ExpertSets& sets) {
  std::vector<std::string> items;
  for (auto first = sets.layers.begin(); first != sets.layers.end();) {
    auto last = first, next = std::next(first);
    // Only layers with consecutive numbers are joined, because add() refuses a range with a gap.
    while (next != sets.layers.end() && next->first == last->first + 1 &&
           next->second == first->second)
      last = next++;
    const std::string layers = last == first ? fmt::to_string(first->first)
                                             : fmt::format("{}-{}", first->first, last->first);
    items.push_back(fmt::format("L{}:{}", layers, ranges_text(first->second)));
    first = next;
  }
  return fmt::format("{}", fmt::join(items, ";"));
}

namespace {

// Minimum total number of experts in any `kept` groups. If it is below top-k, a token would have to
// choose experts from groups that it does not keep.
int64_t fewest_in_kept_groups(const std::map<int64_t, int64_t>& counts, int64_t kept) {
  std::vector<int64_t> ascending;
  for (const auto& [group, count] : counts) ascending.push_back(count);
  std::sort(ascending.begin(), ascending.end());
  return std::accumulate(ascending.begin(), ascending.begin() + kept, int64_t{0});
}

}  // namespace

Status check_enough(const ExpertSets& sets, const ExpertGrid& grid, const std::string& what) {
  // max() avoids a division by 0 if grid.groups is 0.
  const int64_t group_size = grid.experts / std::max<int64_t>(1, grid.groups);
  for (const auto& [layer, experts] : sets.layers) {
    const auto place = [&, layer = layer] { return fmt::format("{}: layer {}", what, layer); };
    if (std::ssize(experts) < grid.top_k)
      return fail("experts.too_few",
                  fmt::format("{} has {} experts, fewer than the top-k of {}", place(),
                              experts.size(), grid.top_k),
                  fmt::format("keep at least {} experts in each layer", grid.top_k));
    std::map<int64_t, int64_t> groups;
    // Each group consists of group_size consecutive experts.
    for (const int64_t expert : experts) ++groups[expert / group_size];
    if (std::ssize(groups) < grid.groups_kept)
      return fail("experts.too_few",
                  fmt::format("{} has experts in {} groups, fewer than the {} that a token keeps",
                              place(), groups.size(), grid.groups_kept),
                  fmt::format("keep experts in at least {} groups of {} experts each",
                              grid.groups_kept, group_size));
    if (const int64_t fewest = fewest_in_kept_groups(groups, grid.groups_kept); fewest < grid.top_k)
      return fail(
          "experts.too_few",
          fmt::format("{} has {} groups with only {} experts together, fewer than the top-k of {}",
                      place(), grid.groups_kept, fewest, grid.top_k),
          "keep more experts in the smallest groups");
  }
  return {};
}

Result<ExpertSets> read_expert_mask(const std::string& value, const ExpertGrid& grid,
                                    const std::string& flag) {
  const bool in_file = value.starts_with('@');
  std::string text = value;
  if (in_file) {
    MOEC_ASSIGN(text, read_user_text(value.substr(1), "experts.file"));
  }
  const std::string what = in_file ? value.substr(1) : flag;
  MOEC_ASSIGN(ExpertSets mask, parse_expert_sets(text, grid, what));
  MOEC_TRY(check_enough(mask, grid, what));
  return mask;
}

}  // namespace moec
