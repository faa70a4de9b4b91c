#include "frontends/jobs/analyze/analysis_csv.h"

#include <fmt/format.h>

#include <numeric>

#include "ir/base/at.h"

namespace moec {
namespace {

// `T{0}` keeps counts exact: integers are summed as integers and converted to a double once.
template <class T>
double total_of(const std::vector<T>& values) {
  return static_cast<double>(std::accumulate(values.begin(), values.end(), T{0}));
}

// A layer without selections has shares of 0; 0 / 0 would write "nan" into the file.
double part_of(double value, double total) { return total == 0 ? 0 : value / total; }

// An element of a list, or an empty cell if the list is empty.
std::string cell(const std::vector<double>& values, size_t index) {
  return values.empty() ? "" : fmt::format("{:.9g}", values[index]);
}

// Quotes a name if it has commas, quotes or line ends.
std::string name_cell(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string out = "\"";
  // RFC 4180: a quote inside a quoted cell is doubled.
  for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string ranking_rows(const std::vector<double>& mass, const std::vector<int64_t>& counts) {
  std::string out = "expert_id,total_mass,mass_fraction,selection_count\n";
  const double total = total_of(mass);
  for (const int64_t expert : falling_order(mass))
    out += fmt::format("{},{:.9g},{:.9g},{}\n", expert, at(mass, expert),
                       part_of(at(mass, expert), total), at(counts, expert));
  return out;
}

std::string expert_row(const LayerProfile& layer, size_t e) {
  const double mass = total_of(layer.mass);
  // Three empty cells keep the number of columns if routing weights were not measured.
  std::string mass_cells = ",,";
  if (!layer.mass.empty())
    mass_cells = fmt::format("{:.9g},{:.9g},{:.9g}", layer.mass[e], part_of(layer.mass[e], mass),
                             mean_weight(layer, static_cast<int64_t>(e)));
  return fmt::format("{},{},{},{:.9g},{},{},{},{}\n", layer.layer, e, layer.selections[e],
                     part_of(static_cast<double>(layer.selections[e]), total_of(layer.selections)),
                     mass_cells, cell(layer.output_norm, e), cell(layer.saliency, e),
                     cell(layer.largest_activation, e));
}

}  // namespace

std::string experts_csv(const Analysis& analysis) {
  std::string out =
      "layer,expert_id,selection_count,selection_share,gate_mass,mass_fraction,mean_weight,"
      "output_norm,saliency,largest_activation\n";
  for (const LayerProfile& layer : analysis.profile.layers)
    for (size_t e = 0; e < layer.selections.size(); ++e) out += expert_row(layer, e);
  return out;
}

std::string capture_csv(const Analysis& analysis) {
  std::string out = "layer,experts,mass,selections,held_out,latest,uniform\n";
  for (size_t i = 0; i < analysis.layers.size(); ++i) {
    const LayerStatistics& layer = analysis.layers[i];
    for (size_t c = 0; c < layer.capture.size(); ++c)
      // Curves start at one expert; index `c` is the share of c + 1 experts.
      out += fmt::format("{},{},{},{},{},{},{:.9g}\n", analysis.profile.layers[i].layer, c + 1,
                         cell(layer.capture_mass, c), cell(layer.capture, c),
                         cell(layer.held_out, c), cell(layer.latest, c),
                         static_cast<double>(c + 1) / static_cast<double>(layer.capture.size()));
  }
  return out;
}

std::string categories_csv(const Analysis& analysis) {
  const ExpertProfile& profile = analysis.profile;
  std::string out = "layer,category,expert_id,selection_count,share,low,high\n";
  for (size_t i = 0; i < analysis.layers.size(); ++i)
    for (size_t c = 0; c < analysis.layers[i].shares.size(); ++c) {
      const CategoryShares& shares = analysis.layers[i].shares[c];
      for (size_t e = 0; e < shares.share.size(); ++e)
        out += fmt::format("{},{},{},{},{:.9g},{},{}\n", profile.layers[i].layer,
                           name_cell(profile.categories[c].name), e,
                           profile.layers[i].by_category[c][e], shares.share[e],
                           cell(shares.low, e), cell(shares.high, e));
    }
  return out;
}

std::string coactivation_csv(const ExpertProfile& profile) {
  std::string out = "layer,expert_a,expert_b,tokens,lift\n";
  for (const LayerProfile& layer : profile.layers) {
    // Not every analysis counts pairs; an imatrix has none.
    if (layer.together.empty()) continue;
    for (int64_t a = 0; a < profile.experts; ++a)
      // `together` stores a triangle: each unordered pair occurs once, as a < b.
      for (int64_t b = a + 1; b < profile.experts; ++b) {
        const int64_t count = at(layer.together, pair_at(a, b, profile.experts));
        // A positive count implies positive selections of both experts, so the divisions below are
        // defined.
        if (count == 0) continue;
        // lift = P(a and b) / (P(a) P(b)) = count * tokens / (selections[a] * selections[b]).
        // Doubles, because the product of two counts could overflow.
        const double lift = static_cast<double>(count) * static_cast<double>(layer.tokens) /
                            static_cast<double>(at(layer.selections, a)) /
                            static_cast<double>(at(layer.selections, b));
        out += fmt::format("{},{},{},{},{:.6g}\n", layer.layer, a, b, count, lift);
      }
  }
  return out;
}

std::string ranking_csv(const LayerProfile& layer) {
  return ranking_rows(layer.mass, layer.selections);
}

std::string summed_ranking_csv(const ExpertProfile& profile) {
  return "# Summed over layers, only for tools that require this format: experts with the same "
         "index "
         "in different layers are unrelated. See ranking_LNN.csv for the ranking of each layer.\n" +
         ranking_rows(summed(profile, &LayerProfile::mass),
                      summed(profile, &LayerProfile::selections));
}

}  // namespace moec
