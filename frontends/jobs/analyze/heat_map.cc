#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "frontends/jobs/analyze/plots.h"
#include "frontends/measure/svg.h"
#include "ir/base/at.h"

namespace moec {
namespace {

constexpr double kMapLeft = 48, kMapTop = 56, kMapLegend = 190;
// Lower bounds of the colors, as multiples of an even share.
// Geometric steps: a factor of about the square root of 2 near an even share, and of 2 elsewhere.
constexpr std::array<double, 10> kSteps = {0, 0.125, 0.25, 0.5, 0.7, 1, 1.4, 2, 4, 8};
constexpr std::array<const char*, 10> kColors = {"#ffffff", "#f8f6ea", "#f1ead0", "#ecdca2",
                                                 "#f3c876", "#f2ab55", "#e98339", "#d1502e",
                                                 "#962335", "#4b1038"};
constexpr const char* kNever = "#9db8d2";

const char* color_of(int64_t count, double even) {
  // Experts without selections get a separate hue: white would not distinguish them from rarely
  // picked experts.
  if (count == 0) return kNever;
  const double multiple = static_cast<double>(count) / even;
  // The first step is 0, so `above` is never begin().
  const auto above = std::upper_bound(kSteps.begin(), kSteps.end(), multiple);
  return kColors[static_cast<size_t>(above - kSteps.begin()) - 1];
}

struct Cells {
  double width = 0, height = 0;
};

Cells cells_of(const ExpertProfile& profile) {
  const auto layers = static_cast<double>(profile.layers.size());
  const auto experts = static_cast<double>(profile.experts);
  // Limits the map to about 1,024 x 768, unless cells would be smaller than 2 x 8.
  return {std::clamp(std::floor(1024 / experts), 2.0, 24.0),
          std::clamp(std::floor(768 / layers), 8.0, 24.0)};
}

// Merges adjacent cells of the same color into one rectangle, to limit the file size.
std::string row_of(const LayerProfile& layer, Cells cells, double y) {
  const double total = static_cast<double>(
      std::accumulate(layer.selections.begin(), layer.selections.end(), int64_t{0}));
  const double even = total / static_cast<double>(layer.selections.size());
  std::string out;
  for (size_t begin = 0, end = 0; begin < layer.selections.size(); begin = end) {
    const char* color = color_of(layer.selections[begin], even);
    // Compares addresses: color_of() returns kNever or an element of kColors.
    while (end < layer.selections.size() && color_of(layer.selections[end], even) == color) ++end;
    out += svg::box(kMapLeft + static_cast<double>(begin) * cells.width, y,
                    static_cast<double>(end - begin) * cells.width, cells.height, color);
  }
  return out;
}

// Returns the smallest step between labelled cells at which labels do not overlap.
int64_t step_of_labels(int64_t count, double size, double room) {
  for (const int64_t step : {1, 2, 4, 8, 16, 32, 64, 128})
    if (static_cast<double>(step) * size >= room || step >= count) return step;
  return count;
}

std::string map_axes(const ExpertProfile& profile, Cells cells) {
  std::string out;
  const int64_t columns = step_of_labels(profile.experts, cells.width, 24);
  for (int64_t e = 0; e < profile.experts; e += columns)
    out += svg::text(kMapLeft + (static_cast<double>(e) + 0.5) * cells.width, kMapTop - 6,
                     fmt::to_string(e), "middle");
  const auto layers = std::ssize(profile.layers);
  const int64_t rows = step_of_labels(layers, cells.height, 11);
  for (int64_t i = 0; i < layers; i += rows)
    out += svg::text(kMapLeft - 6, kMapTop + (static_cast<double>(i) + 0.5) * cells.height + 4,
                     fmt::format("L{:02}", at(profile.layers, i).layer), "end");
  return out;
}

std::string map_legend(double x) {
  std::string out = svg::text(x, kMapTop + 10, "picked, as a multiple");
  out += svg::text(x, kMapTop + 24, "of an even share");
  double y = kMapTop + 34;
  for (size_t i = kSteps.size(); i-- > 0; y += 18) {
    out += svg::box(x, y, 14, 14, "#ccc") + svg::box(x + 1, y + 1, 12, 12, kColors[i]);
    out += svg::text(x + 20, y + 11,
                     i + 1 == kSteps.size() ? fmt::format("{} or more", kSteps[i])
                                            : fmt::format("{} to {}", kSteps[i], kSteps[i + 1]));
  }
  return out + svg::box(x, y, 14, 14, kNever) + svg::text(x + 20, y + 11, "never");
}

}  // namespace

std::string heat_map_svg(const ExpertProfile& profile) {
  const Cells cells = cells_of(profile);
  const double width = cells.width * static_cast<double>(profile.experts);
  const double height = cells.height * static_cast<double>(profile.layers.size());
  std::string body = svg::text(kMapLeft, 20, "Selections of experts by layer", "start", 14);
  body += svg::text(kMapLeft, 36, "columns: expert indices, rows: layers");
  body += map_axes(profile, cells);
  body += svg::box(kMapLeft - 1, kMapTop - 1, width + 2, height + 2, "#888");
  double y = kMapTop;
  for (const LayerProfile& layer : profile.layers) {
    body += row_of(layer, cells, y);
    y += cells.height;
  }
  body += map_legend(kMapLeft + width + 20);
  // The height is at least 240, because the legend ends 228 below kMapTop.
  return svg::picture(kMapLeft + width + kMapLegend, kMapTop + std::max(height, 240.0) + 16, body);
}

}  // namespace moec
