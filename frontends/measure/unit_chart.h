// An SVG chart of curves from 0 to 100 % over the number of experts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/measure/svg.h"

namespace moec::svg {

struct Stroke {
  const char* color;
  double width;
  const char* more;  // additional SVG attributes
};

class UnitChart {
 public:
  // `most` is the number of experts at the right end of the axis. Texts must not contain markup.
  UnitChart(std::string_view title, std::string_view x_label, double most);

  // Converts fractions of width and height, 0 to 1, to a point.
  static Point place(double x, double y);
  void draw(const std::vector<Point>& points, const Stroke& stroke);
  // Adds a stroke with its name to the legend.
  void explain(const Stroke& stroke, std::string_view name);
  void note(std::string_view words);
  std::string picture() const;

 private:
  std::string body_;
  double next_;  // y coordinate of the next line of the legend
};

}  // namespace moec::svg
