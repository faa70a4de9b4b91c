#include "frontends/measure/unit_chart.h"

namespace moec::svg {
namespace {

constexpr double kLeft = 56, kTop = 40, kWidth = 480, kHeight = 360, kLegend = 230;
constexpr double kLegendLeft = kLeft + kWidth + 16, kLegendStep = 18;

}  // namespace

UnitChart::UnitChart(std::string_view title, std::string_view x_label, double most)
    : next_(kTop + 8) {
  for (int i = 0; i <= 4; ++i) {
    const double part = i / 4.0;
    body_ += line({place(part, 0), place(part, 1)}, "#ddd", 1);
    body_ += line({place(0, part), place(1, part)}, "#ddd", 1);
    body_ +=
        text(place(part, 0).x, kTop + kHeight + 16, fmt::format("{:g}", part * most), "middle");
    body_ += text(kLeft - 6, place(0, part).y + 4, fmt::format("{} %", 25 * i), "end");
  }
  body_ += text(kLeft + kWidth / 2, kTop + kHeight + 34, x_label, "middle");
  body_ += text(kLeft, 22, title, "start", 14);
}

Point UnitChart::place(double x, double y) {
  // The y axis of SVG points down.
  return {kLeft + x * kWidth, kTop + (1 - y) * kHeight};
}

void UnitChart::draw(const std::vector<Point>& points, const Stroke& stroke) {
  body_ += line(points, stroke.color, stroke.width, stroke.more);
}

void UnitChart::explain(const Stroke& stroke, std::string_view name) {
  draw({{kLegendLeft, next_}, {kLegendLeft + 22, next_}}, stroke);
  body_ += text(kLegendLeft + 28, next_ + 4, name);
  next_ += kLegendStep;
}

void UnitChart::note(std::string_view words) {
  body_ += text(kLegendLeft, next_ + 8, words);
  next_ += kLegendStep;
}

std::string UnitChart::picture() const {
  return svg::picture(kLeft + kWidth + kLegend, kTop + kHeight + 48, body_);
}

}  // namespace moec::svg
