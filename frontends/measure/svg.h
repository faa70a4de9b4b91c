// SVG elements for the charts of an analysis.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec::svg {

// Wraps `body` in an SVG document with a white background. Sizes are in pixels.
inline std::string picture(double width, double height, std::string_view body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" "
      "font-size=\"11\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{2}"
      "</svg>\n",
      width, height, body);
}

// `anchor` is start, middle or end. `words` must not contain markup.
inline std::string text(double x, double y, std::string_view words,
                        std::string_view anchor = "start", int size = 11) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
      anchor, size, words);
}

inline std::string box(double x, double y, double width, double height, std::string_view fill) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
      width, height, fill);
}

struct Point {
  double x = 0, y = 0;
};

inline std::string line(const std::vector<Point>& points, std::string_view color, double width,
                        std::string_view more = "") {
  std::string list;
  for (const Point& point : points) list += fmt::format("{:.1f},{:.1f} ", point.x, point.y);
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" {}/>\n", list, color,
      width, more);
}

}  // namespace moec::svg
