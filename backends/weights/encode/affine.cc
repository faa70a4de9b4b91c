#include "backends/weights/encode/affine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/weights/encode/round_even.h"

namespace moec {
namespace {

// Fractions of the scale that spans all values. Clipping the largest values a little makes all
// others finer; below 0.65 that does not pay for the error of the clipped ones.
constexpr std::array kShrink = {1.0f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 0.65f};

constexpr float kLeastF16 = 0x1p-14f, kLargestF16 = 65504.0f;

struct Coder {
  float inverse, low, high, zero;

  Coder(const AffineBlock& block, CodeRange range)
      : inverse(1 / block.scale),
        low(static_cast<float>(range.low)),
        high(static_cast<float>(range.high)),
        zero(static_cast<float>(block.zero)) {}

  // Limited before it is rounded, so that values far beyond the range round exactly.
  float code(float value) const {
    return round_even(std::min(std::max(value * inverse + zero, low), high));
  }
  float steps(float value) const { return code(value) - zero; }  // value ≈ scale × steps
};

float allowed_scale(float scale, ScalePrecision precision) {
  if (precision == ScalePrecision::f32) return std::max(scale, 0x1p-126f);
  const float rounded = round_significand(scale, static_cast<int>(precision));
  return std::clamp(rounded, kLeastF16, round_significand(kLargestF16 / 2, 8));
}

// How well scale × steps fits the values, whatever the scale: with the best one, products /
// squares, the squared error is Σ value² − products² / squares.
struct Fit {
  double products = 0, squares = 0;  // Σ steps × value and Σ steps²

  double gain() const { return squares > 0 && products > 0 ? products * products / squares : 0; }
};

// Several partial sums, which the compiler keeps in vector registers; always in the same order.
Fit fit_of(std::span<const float> values, const Coder& coder) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> products{}, squares{};
  auto add = [&](size_t lane, float value) {
    const float steps = coder.steps(value);
    products[lane] += steps * value;
    squares[lane] += steps * steps;
  };
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, values[i + lane]);
  for (size_t lane = 0; i < values.size(); ++i, ++lane) add(lane, values[i]);
  return {std::accumulate(products.begin(), products.end(), 0.0),
          std::accumulate(squares.begin(), squares.end(), 0.0)};
}

struct Extent {
  float low = 0, high = 0;  // low ≤ 0 ≤ high
};

// The scale and zero with which the codes span the values.
AffineBlock spanning(const Extent& extent, CodeRange range, float shrink,
                     const AffineOptions& options) {
  const float low = extent.low * shrink, high = extent.high * shrink;
  if (!options.zero_point) {
    const float codes = static_cast<float>(range.high);
    return {allowed_scale(std::max(-low, high) / codes, options.precision), 0};
  }
  const float codes = static_cast<float>(range.high - range.low);
  const float scale = allowed_scale((high - low) / codes, options.precision);
  const float zero = static_cast<float>(range.low) - low / scale;
  return {scale, static_cast<int>(std::clamp(round_even(zero), static_cast<float>(range.low),
                                             static_cast<float>(range.high)))};
}

}  // namespace

CodeRange affine_codes(int bits) {
  const int half = 1 << (bits - 1);
  return {bits == 8 ? -127 : -half, half - 1};
}

float round_significand(float value, int bits) {
  const int dropped = 24 - bits;
  if (dropped <= 0) return value;
  const uint32_t pattern = std::bit_cast<uint32_t>(value);
  const uint32_t half = (1u << (dropped - 1)) - 1, odd = pattern >> dropped & 1u;
  return std::bit_cast<float>((pattern + half + odd) >> dropped << dropped);
}

AffineBlock fit_affine(std::span<const float> values, const AffineOptions& options) {
  const CodeRange range = affine_codes(options.bits);
  Extent extent;
  for (float value : values) {
    extent.low = std::min(extent.low, value);
    extent.high = std::max(extent.high, value);
  }
  if (extent.low == 0 && extent.high == 0) return {};
  // With the steps of 8 bits, clipping never pays.
  const size_t tries = options.bits == 8 ? 1 : kShrink.size();
  AffineBlock best;
  Fit best_fit;
  for (float shrink : std::span(kShrink).first(tries)) {
    const AffineBlock block = spanning(extent, range, shrink, options);
    const Fit fit = fit_of(values, Coder(block, range));
    if (best_fit.squares > 0 && fit.gain() <= best_fit.gain()) continue;
    best = block;
    best_fit = fit;
  }
  if (best_fit.gain() > 0)
    best.scale =
        allowed_scale(static_cast<float>(best_fit.products / best_fit.squares), options.precision);
  return best;
}

void encode_affine(std::span<const float> values, const AffineBlock& block, int bits,
                   std::span<int8_t> codes) {
  const Coder coder(block, affine_codes(bits));
  for (size_t i = 0; i < values.size(); ++i) codes[i] = static_cast<int8_t>(coder.code(values[i]));
}

}  // namespace moec
