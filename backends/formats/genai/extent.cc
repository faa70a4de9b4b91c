#include "backends/formats/genai/extent.h"

#include <fmt/format.h>

#include "ir/base/at.h"

namespace moec {
namespace {

// The quotient, or empty if it is not an integer.
std::optional<int64_t> slope(int64_t growth, int64_t step) {
  if (step == 0 || growth % step != 0) return std::nullopt;
  return growth / step;
}

void add_term(std::string& text, int64_t factor, std::string_view name) {
  if (factor == 0) return;
  if (!text.empty() && factor > 0) text += '+';
  if (factor == -1) text += '-';
  if (factor != 1 && factor != -1) text += fmt::format("{}*", factor);
  text += name;
}

}  // namespace

std::string to_string(const Extent& extent) {
  if (extent.is_constant()) return std::to_string(extent.constant);
  std::string text;
  if (extent.tokens == extent.past) {
    add_term(text, extent.tokens, "total");
  } else {
    add_term(text, extent.tokens, "tokens");
    add_term(text, extent.past, "past");
  }
  return extent.constant == 0 ? text : text + fmt::format("{:+}", extent.constant);
}

std::optional<Extent> fit_extent(std::span<const GraphPoint> points,
                                 std::span<const int64_t> values) {
  const auto value = [&](int64_t i) { return at(values, i); };
  if (points.size() == 1) return Extent{value(0)};
  const GraphPoint& first = points[0];
  const auto tokens = slope(value(1) - value(0), points[1].tokens - first.tokens);
  const auto past = slope(value(2) - value(0), points[2].past - first.past);
  if (!tokens || !past) return std::nullopt;
  const Extent extent{value(0) - *tokens * first.tokens - *past * first.past, *tokens, *past};
  for (size_t i = 0; i < points.size(); ++i)
    if (extent.at(points[i]) != values[i]) return std::nullopt;
  return extent;
}

}  // namespace moec
