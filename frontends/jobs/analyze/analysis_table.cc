#include "frontends/jobs/analyze/analysis_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/base/at.h"
#include "ir/base/worst_rows.h"

namespace moec {
namespace {

std::string percent(const std::vector<double>& curve, size_t index) {
  return curve.empty() ? "-" : fmt::format("{:.1f} %", 100 * curve[index]);
}

std::string layer_row(const LayerProfile& layer, const LayerStatistics& statistics) {
  // Curves start at one expert, so index experts / 4 - 1 is the share of a quarter. max() handles
  // layers with fewer than four experts.
  const size_t experts = layer.selections.size(), quarter = std::max<size_t>(1, experts / 4) - 1;
  const int64_t hottest = falling_order(layer.selections).front();
  const auto chosen = static_cast<double>(at(layer.selections, hottest));
  const auto none = std::count(layer.selections.begin(), layer.selections.end(), 0);
  // A layer without tokens has no share; the division would print "nan".
  return fmt::format(
      "L{:02} {:>9} {:>8.2f} {:>6.3f} {:>9} {:>9} {:>9}   {:>4} {:>7} {:>6}\n", layer.layer,
      layer.tokens, statistics.entropy_bits, statistics.gini, percent(statistics.capture, quarter),
      percent(statistics.held_out, quarter), percent(statistics.latest, quarter), hottest,
      layer.tokens == 0 ? "-"
                        : fmt::format("{:.1f} %", 100 * chosen / static_cast<double>(layer.tokens)),
      none);
}

}  // namespace

std::string analysis_table(const Analysis& analysis, size_t most_layers) {
  const auto experts = static_cast<double>(analysis.profile.experts);
  // The same rounding as in layer_row(), so that the header names the number that the rows use.
  const int64_t quarter = std::max<int64_t>(1, analysis.profile.experts / 4);
  std::string out = fmt::format(
      "{} experts per layer, top-k {}; an even router has {:.2f} bits, and {} experts get {:.1f} "
      "%\n"
      "{:32}share of {} experts        hottest\n"
      "      tokens     bits   gini   on text  held out    cached expert  tokens  never\n",
      analysis.profile.experts, analysis.profile.top_k, std::log2(experts), quarter,
      100 * static_cast<double>(quarter) / experts, "", quarter);
  std::vector<RankedRow> rows;
  for (size_t i = 0; i < analysis.layers.size(); ++i)
    rows.push_back(
        {layer_row(analysis.profile.layers[i], analysis.layers[i]), analysis.layers[i].gini});
  out += worst_rows(rows, most_layers, "layers with the least even use");
  for (const ProfileCategory& category : analysis.profile.categories)
    out += fmt::format("{}: {} documents, {} tokens\n", category.name, category.documents,
                       category.tokens);
  return out;
}

}  // namespace moec
