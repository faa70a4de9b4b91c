#include <algorithm>

#include "frontends/jobs/analyze/plots.h"
#include "frontends/measure/unit_chart.h"

namespace moec {
namespace {

using Curve = std::vector<double> LayerStatistics::*;

struct Drawn {
  Curve curve;
  const char* color;
  const char* name;
};
constexpr Drawn kDrawn[] = {
    {&LayerStatistics::capture, "#d1702e", "best experts on the same text"},
    {&LayerStatistics::held_out, "#962335", "best experts, on held-out text"},
    {&LayerStatistics::latest, "#2f6f9f", "most recently used experts (a cache)"},
};

std::vector<svg::Point> points_of(const std::vector<double>& curve) {
  // The curve starts at the origin: no experts get no selections.
  std::vector<svg::Point> points = {svg::UnitChart::place(0, 0)};
  for (size_t c = 0; c < curve.size(); ++c)
    points.push_back(svg::UnitChart::place(
        static_cast<double>(c + 1) / static_cast<double>(curve.size()), curve[c]));
  return points;
}

// Mean over the layers that have the curve.
std::vector<double> mean_curve(const Analysis& analysis, Curve curve) {
  std::vector<double> mean;
  double layers = 0;
  for (const LayerStatistics& layer : analysis.layers) {
    // `held_out` and `latest` are absent for analyses without token order, such as those of an
    // imatrix.
    if ((layer.*curve).empty()) continue;
    mean.resize((layer.*curve).size());
    for (size_t c = 0; c < mean.size(); ++c) mean[c] += (layer.*curve)[c];
    ++layers;
  }
  // Without any curve, `mean` is empty, so there is no division by zero.
  for (double& value : mean) value /= layers;
  return mean;
}

}  // namespace

std::string capture_svg(const Analysis& analysis) {
  constexpr svg::Stroke kEven{"#555", 1.2, "stroke-dasharray=\"5,4\""}, kSingle{"#bbb", 0.8, ""};
  svg::UnitChart chart("Share of a layer's selections", "experts of a layer",
                       static_cast<double>(analysis.profile.experts));
  const bool held_out = !analysis.layers.front().held_out.empty();
  const Curve grey = held_out ? &LayerStatistics::held_out : &LayerStatistics::capture;
  for (const LayerStatistics& layer : analysis.layers) chart.draw(points_of(layer.*grey), kSingle);
  chart.draw({svg::UnitChart::place(0, 0), svg::UnitChart::place(1, 1)}, kEven);
  for (const auto& [curve, color, name] : kDrawn) {
    const std::vector<double> mean = mean_curve(analysis, curve);
    if (mean.empty()) continue;
    chart.draw(points_of(mean), {color, 2.2, ""});
    chart.explain({color, 2.2, ""}, name);
  }
  chart.explain(kSingle, held_out ? "single layers, on held-out text" : "single layers");
  chart.explain(kEven, "even shares");
  chart.note("colors: means over layers");
  return chart.picture();
}

}  // namespace moec
