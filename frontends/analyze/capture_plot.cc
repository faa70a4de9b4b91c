#include <algorithm>

#include "frontends/analyze/plots.h"
#include "frontends/analyze/svg.h"

namespace moec {
namespace {

constexpr double kLeft = 56, kTop = 40, kWidth = 480, kHeight = 360, kLegend = 230;

using Curve = std::vector<double> LayerStatistics::*;

struct Drawn {
  Curve curve;
  const char* color;
  const char* name;
};
constexpr Drawn kDrawn[] = {
    {&LayerStatistics::capture, "#d1702e", "best experts on the same text"},
    {&LayerStatistics::held_out, "#962335", "best experts, on held-out text"},
    {&LayerStatistics::latest, "#2f6f9f", "latest used experts (a cache)"},
};

svg::Point place(double part, double captured) {
  return {kLeft + part * kWidth, kTop + (1 - captured) * kHeight};
}

std::vector<svg::Point> points_of(const std::vector<double>& curve) {
  std::vector<svg::Point> points = {place(0, 0)};
  for (size_t c = 0; c < curve.size(); ++c)
    points.push_back(
        place(static_cast<double>(c + 1) / static_cast<double>(curve.size()), curve[c]));
  return points;
}

// The mean of the layers that have the curve.
std::vector<double> mean_curve(const Analysis& analysis, Curve curve) {
  std::vector<double> mean;
  double layers = 0;
  for (const LayerStatistics& layer : analysis.layers) {
    if ((layer.*curve).empty()) continue;
    mean.resize((layer.*curve).size());
    for (size_t c = 0; c < mean.size(); ++c) mean[c] += (layer.*curve)[c];
    ++layers;
  }
  for (double& value : mean) value /= layers;
  return mean;
}

std::string axes(int64_t experts) {
  std::string out;
  for (int i = 0; i <= 4; ++i) {
    const double part = i / 4.0;
    const auto count = static_cast<double>(experts);
    out += svg::line({place(part, 0), place(part, 1)}, "#ddd", 1);
    out += svg::line({place(0, part), place(1, part)}, "#ddd", 1);
    out += svg::text(place(part, 0).x, kTop + kHeight + 16, fmt::format("{:g}", part * count),
                     "middle");
    out += svg::text(kLeft - 6, place(0, part).y + 4, fmt::format("{} %", 25 * i), "end");
  }
  out += svg::text(kLeft + kWidth / 2, kTop + kHeight + 34, "experts of a layer", "middle");
  return out +
         svg::text(kLeft, 22, "Part of a layer's selections that its experts take", "start", 14);
}

std::string legend_line(double y, const char* color, double width, const char* more,
                        std::string_view name) {
  const double x = kLeft + kWidth + 16;
  return svg::line({{x, y}, {x + 22, y}}, color, width, more) + svg::text(x + 28, y + 4, name);
}

}  // namespace

std::string capture_svg(const Analysis& analysis) {
  constexpr const char* kDashes = "stroke-dasharray=\"5,4\"";
  std::string body = axes(analysis.profile.experts);
  const Curve grey = analysis.layers.front().held_out.empty() ? &LayerStatistics::capture
                                                              : &LayerStatistics::held_out;
  for (const LayerStatistics& layer : analysis.layers)
    body += svg::line(points_of(layer.*grey), "#bbb", 0.8);
  body += svg::line({place(0, 0), place(1, 1)}, "#555", 1.2, kDashes);
  double y = kTop + 8;
  for (const auto& [curve, color, name] : kDrawn) {
    const std::vector<double> mean = mean_curve(analysis, curve);
    if (mean.empty()) continue;
    body += svg::line(points_of(mean), color, 2.2) + legend_line(y, color, 2.2, "", name);
    y += 18;
  }
  body += legend_line(
      y, "#bbb", 0.8, "",
      grey == &LayerStatistics::capture ? "single layers" : "single layers, on held-out text");
  body += legend_line(y + 18, "#555", 1.2, kDashes, "even shares");
  body += svg::text(kLeft + kWidth + 16, y + 44, "colors: means of the layers");
  return svg::picture(kLeft + kWidth + kLegend, kTop + kHeight + 48, body);
}

}  // namespace moec
