// Sizes of a graph as functions of the numbers of new and earlier tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace moec {

// Numbers of tokens: `tokens` in the step, `past` in the cache before it.
struct GraphPoint {
  int64_t tokens = 1, past = 1;
  bool operator==(const GraphPoint&) const = default;
};

// constant + tokens · T + past · P.
struct Extent {
  int64_t constant = 0, tokens = 0, past = 0;

  bool is_constant() const { return tokens == 0 && past == 0; }
  int64_t at(const GraphPoint& point) const {
    return constant + tokens * point.tokens + past * point.past;
  }
  Extent operator-(const Extent& other) const {
    return {constant - other.constant, tokens - other.tokens, past - other.past};
  }
  bool operator==(const Extent&) const = default;
};

// "tokens", "past", "total" (both), "4*tokens", "tokens+3", or a number.
std::string to_string(const Extent& extent);

// Fits values at the points: one point gives a constant. More points start with three that differ
// in `tokens` (0 and 1) and in `past` (0 and 2) only; the others must confirm the fit. Empty if no
// extent has these values.
std::optional<Extent> fit_extent(std::span<const GraphPoint> points,
                                 std::span<const int64_t> values);

}  // namespace moec
