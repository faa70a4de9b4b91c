// A chart of curves from 0 to 100 % over a number of experts, as SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/measure/svg.h"

namespace moec::svg {

struct Stroke {
  const char* color;
  double width;
  const char* more;  // further attributes
};

class UnitChart {
 public:
  // `most` experts are at the right end. The texts must be free of markup.
  UnitChart(std::string_view title, std::string_view x_label, double most);

  // A point at this part of the width and of the height, both 0 to 1.
  static Point place(double x, double y);
  void draw(const std::vector<Point>& points, const Stroke& stroke);
  // A line of the legend, below those before it.
  void explain(const Stroke& stroke, std::string_view name);
  void note(std::string_view words);
  std::string picture() const;

 private:
  std::string body_;
  double next_;  // of the legend
};

}  // namespace moec::svg
