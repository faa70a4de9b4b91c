#include "backends/weights/views/coded_token.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/weights/views/code_kernels.h"

namespace moec {
namespace {

// Returns elements in planes, as code_kernels.h describes, and sets the distance of planes.
template <class Element>
std::vector<Element> in_planes(std::span<const Element> elements, int64_t planes, int64_t& plane) {
  plane = (std::ssize(elements) + planes - 1) / planes +
          kPlanePadding / static_cast<int64_t>(sizeof(Element));
  std::vector<Element> to(static_cast<size_t>(planes * plane));
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t i = p, at = p * plane; i < std::ssize(elements); i += planes, ++at)
      to[static_cast<size_t>(at)] = elements[static_cast<size_t>(i)];
  return to;
}

// Rounds a number of at most 2^22 to the nearest integer, ties to even: the sum has no fraction
// bits. std::nearbyint is a call on CPUs without SSE4.1.
float nearest(float value) {
  constexpr float kShift = 3 << 22;
  return value + kShift - kShift;
}

// The largest magnitude; NaN or infinite if a value is. Without their sign, the bits of floats are
// ordered as their magnitudes are, and compilers vectorize the maximum of integers.
float largest_magnitude(const float* values, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7FFFFFFF);
  return std::bit_cast<float>(largest);
}

// Writes the factors of a group, and appends its scale and its sum.
void quantize_group(const float* values, int64_t count, int16_t* factors, CodedToken& token) {
  const float largest = largest_magnitude(values, count);
  const bool is_finite = std::isfinite(largest);
  // Below this, 127 / largest may overflow, so the group becomes zeros.
  const bool is_zero = largest < 127 * std::numeric_limits<float>::min();
  int32_t sum = 0;
  if (is_finite && !is_zero) {
    const float inverse = 127 / largest;
    for (int64_t i = 0; i < count; ++i) {
      const auto factor = static_cast<int32_t>(nearest(values[i] * inverse));
      factors[i] = static_cast<int16_t>(factor);
      sum += factor;
    }
  }
  // Zero factors times NaN are NaN, as is a product with an infinite or undefined activation.
  const float scale = is_finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  token.scales.push_back(scale);
  token.sums.push_back(static_cast<float>(sum) * scale);
}

// Calls visit(first, count) for each group.
template <class Visit>
void for_each_group(int64_t columns, const Visit& visit) {
  for (int64_t at = 0; at < columns; at += kTokenGroup)
    visit(at, std::min(kTokenGroup, columns - at));
}

CodedToken quantized(std::span<const float> token) {
  CodedToken to{.columns = std::ssize(token), .format = ActivationFormat::int8};
  to.byte_factors.resize(token.size());
  for_each_group(to.columns, [&](int64_t first, int64_t count) {
    quantize_group(token.data() + first, count, to.byte_factors.data() + first, to);
  });
  return to;
}

// Moves the factors to planes for codes of 4 bits.
void arrange_nibbles(CodedToken& token) {
  const std::vector<int8_t> factors(token.byte_factors.begin(), token.byte_factors.end());
  token.nibble_factors = in_planes(std::span<const int8_t>(factors), 2, token.plane);
  constexpr int64_t kLane = lane_codes(4);
  token.lane_sums.resize(
      static_cast<size_t>((token.columns + kLane - 1) / kLane + kPlanePadding / 4));
  for (size_t i = 0; i < factors.size(); ++i) token.lane_sums[i / kLane] += factors[i];
  token.byte_factors.clear();
}

}  // namespace

CodedToken arranged(std::span<const float> token, ActivationFormat format, int bits) {
  if (format == ActivationFormat::int8) {
    CodedToken to = quantized(token);
    if (bits == 4) arrange_nibbles(to);
    return to;
  }
  CodedToken to{.columns = std::ssize(token)};
  to.values = in_planes(token, float_planes(bits), to.plane);
  for_each_group(to.columns, [&](int64_t first, int64_t count) {
    const auto begin = token.begin() + first;
    to.sums.push_back(std::accumulate(begin, begin + count, 0.0f));
  });
  return to;
}

}  // namespace moec
