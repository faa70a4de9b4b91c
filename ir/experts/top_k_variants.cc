#include "ir/experts/top_k_variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/base/parse_number.h"

namespace moec {
namespace {

// Run-length encoding: (number, length) of each run of equal numbers.
std::vector<std::pair<int64_t, int64_t>> runs_of_equals(const std::vector<int64_t>& numbers) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  // Only neighbours are compared, so equal numbers that are apart form separate runs.
  for (const int64_t number : numbers)
    if (!runs.empty() && runs.back().first == number)
      ++runs.back().second;
    else
      runs.emplace_back(number, 1);
  return runs;
}

std::vector<int64_t> values_of(const std::map<int64_t, int64_t>& layers) {
  std::vector<int64_t> values;
  for (const auto& [layer, k] : layers) values.push_back(k);
  return values;
}

class FormReader {
 public:
  FormReader(const ExpertGrid& grid, const std::string& what) : grid_(grid), what_(what) {}

  Result<TopKVariant> read(std::string_view text) {
    text_ = text;
    // A single number is the k of every layer.
    if (const auto k = parse_whole(text)) {
      MOEC_TRY(check_count(*k));
      return uniform_variant(grid_, *k);
    }
    MOEC_TRY(for_each_part(text, ";",
                           [&](std::string_view item) { return read_item(trim_spaces(item)); }));
    // The item `*` is applied last, so that it can precede the items of single layers.
    if (others_)
      for (const int64_t layer : grid_.layers) layers_.try_emplace(layer, *others_);
    MOEC_TRY(check_complete());
    return TopKVariant{to_string(layers_), std::move(layers_)};
  }

 private:
  tl::unexpected<Diagnostics> error(std::string code, const std::string& cause,
                                    std::string next) const {
    return fail(std::move(code), fmt::format("{}: '{}' {}", what_, text_, cause), std::move(next));
  }

  Status check_count(int64_t k) const {
    if (k < 1 || k > grid_.experts)
      return error("top_k.count", fmt::format("chooses {} of {} experts", k, grid_.experts),
                   fmt::format("use numbers from 1 to {}", grid_.experts));
    // A token chooses only from the groups that it keeps.
    const int64_t in_groups =
        grid_.experts / std::max<int64_t>(grid_.groups, 1) * grid_.groups_kept;
    if (grid_.groups > 1 && k > in_groups)
      return error(
          "top_k.groups",
          fmt::format("chooses {} experts, but the {} of {} groups that a token keeps have "
                      "{}",
                      k, grid_.groups_kept, grid_.groups, in_groups),
          fmt::format("use numbers from 1 to {}", in_groups));
    return {};
  }

  tl::unexpected<Diagnostics> no_form() const {
    return error("top_k.item", "is neither a number of experts nor a list of layers with numbers",
                 "write numbers such as 1,2, or numbers for ranges of layers such as L0-3:1;L4-:2");
  }

  Status read_item(std::string_view item) {
    const size_t colon = item.find(':');
    if (colon == std::string_view::npos) return no_form();
    const std::string_view where = trim_spaces(item.substr(0, colon));
    const auto k = parse_whole(trim_spaces(item.substr(colon + 1)));
    if (!k) return no_form();
    MOEC_TRY(check_count(*k));
    if (where == "*") {
      if (others_) return twice("all other layers");
      others_ = *k;
      return {};
    }
    const auto layers = where.starts_with('L') ? layers_of(where.substr(1)) : std::nullopt;
    return layers ? add(*layers, *k) : no_form();
  }

  // "4-" extends to the last layer with experts.
  std::optional<NumberRange> layers_of(std::string_view text) const {
    if (!text.ends_with('-')) return parse_range(text);
    const auto first = parse_whole(trim_spaces(text.substr(0, text.size() - 1)));
    if (!first) return std::nullopt;
    // If the number is too large, max() keeps the range valid, and add() reports the layer.
    return NumberRange{*first, std::max(*first, grid_.layers.back())};
  }

  tl::unexpected<Diagnostics> twice(const std::string& layer) const {
    return error("top_k.twice", fmt::format("names {} again", layer), "name each layer once");
  }

  // Both ends of a range must have experts; layers between them without experts are skipped.
  Status add(NumberRange range, int64_t k) {
    for (const int64_t end : {range.first, range.last})
      if (!std::binary_search(grid_.layers.begin(), grid_.layers.end(), end))
        return error("top_k.layer", fmt::format("names layer {}, which has no experts", end),
                     fmt::format("the layers with experts are {}", ranges_text(grid_.layers)));
    for (const int64_t layer : grid_.layers)
      if (layer >= range.first && layer <= range.last && !layers_.try_emplace(layer, k).second)
        return twice(fmt::format("layer {}", layer));
    return {};
  }

  Status check_complete() const {
    std::vector<int64_t> missing;
    for (const int64_t layer : grid_.layers)
      if (!layers_.contains(layer)) missing.push_back(layer);
    if (missing.empty()) return {};
    return error("top_k.missing", fmt::format("omits the layers {}", ranges_text(missing)),
                 fmt::format("add a number for them, or *:{} for all others", grid_.top_k));
  }

  const ExpertGrid& grid_;
  const std::string& what_;
  std::string_view text_;  // of the variant
  std::map<int64_t, int64_t> layers_;
  std::optional<int64_t> others_;  // of the item *
};

}  // namespace

std::vector<int64_t> TopKVariant::of(const std::vector<int64_t>& some) const {
  std::vector<int64_t> top_k;
  // All layers of `some` have experts, so at() finds them.
  for (const int64_t layer : some) top_k.push_back(layers.at(layer));
  return top_k;
}

int64_t TopKVariant::largest() const {
  const std::vector<int64_t> values = values_of(layers);
  // `layers` is empty for a model without experts.
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

TopKVariant uniform_variant(const ExpertGrid& grid, int64_t k) {
  TopKVariant form;
  for (const int64_t layer : grid.layers) form.layers[layer] = k;
  // The name is the canonical text, so equal variants have equal names.
  form.name = to_string(form.layers);
  return form;
}

std::string to_string(const std::map<int64_t, int64_t>& layers) {
  if (layers.empty()) return {};
  if (runs_of_equals(values_of(layers)).size() == 1) return fmt::to_string(layers.begin()->second);
  std::vector<std::string> items;
  // A range may span layers without experts, which add() skips.
  for (auto first = layers.begin(); first != layers.end();) {
    auto last = first, next = std::next(first);
    while (next != layers.end() && next->second == first->second) last = next++;
    const std::string range = last == first ? fmt::to_string(first->first)
                                            : fmt::format("{}-{}", first->first, last->first);
    items.push_back(fmt::format("L{}:{}", range, first->second));
    first = next;
  }
  return fmt::format("{}", fmt::join(items, ";"));
}

Result<std::vector<TopKVariant>> parse_top_k_variants(std::string_view text, const ExpertGrid& grid,
                                                      const std::string& what) {
  if (grid.layers.empty())
    return fail("top_k.no_experts", fmt::format("{}: the model has no layer with experts", what),
                "omit the flag");
  std::vector<TopKVariant> forms;
  MOEC_TRY(for_each_part(text, ",", [&](std::string_view part) -> Status {
    MOEC_ASSIGN(TopKVariant form, FormReader(grid, what).read(trim_spaces(part)));
    // Variants are compared after parsing, because two texts can describe the same variant.
    if (std::find(forms.begin(), forms.end(), form) != forms.end())
      return fail("top_k.repeated", fmt::format("{}: variant {} occurs twice", what, form.name),
                  "list each variant once");
    forms.push_back(std::move(form));
    return {};
  }));
  const auto own = std::find(forms.begin(), forms.end(), uniform_variant(grid, grid.top_k));
  if (own != forms.end()) std::rotate(forms.begin(), own, std::next(own));
  return forms;
}

std::vector<size_t> distinct_forms(const std::vector<TopKVariant>& forms,
                                   const std::vector<int64_t>& layers) {
  // Variants that agree on the layers of a shard share one graph of it.
  std::set<std::vector<int64_t>> known;
  std::vector<size_t> distinct;
  for (size_t i = 0; i < forms.size(); ++i)
    if (known.insert(forms[i].of(layers)).second) distinct.push_back(i);
  return distinct;
}

std::string top_k_label(const std::vector<int64_t>& top_k) {
  const auto runs = runs_of_equals(top_k);
  if (runs.size() == 1) return fmt::format("k{}", runs.front().first);
  std::vector<std::string> parts;
  for (const auto& [k, count] : runs)
    parts.push_back(count == 1 ? fmt::to_string(k) : fmt::format("{}x{}", k, count));
  return fmt::format("k{}", fmt::join(parts, "_"));
}

}  // namespace moec
