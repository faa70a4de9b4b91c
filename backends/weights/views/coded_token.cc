#include "backends/weights/views/coded_token.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/weights/views/code_kernels.h"

namespace moec {
namespace {

// Writes the elements of each whole group in the order of the nibble kernels.
template <class Element>
void split_groups(std::vector<Element>& elements) {
  std::array<Element, kTokenGroup> group;
  const auto whole = std::ssize(elements) / kTokenGroup * kTokenGroup;
  for (auto at = elements.begin(); at != elements.begin() + whole; at += kTokenGroup) {
    for (int64_t i = 0; i < kTokenGroup; ++i)
      group[static_cast<size_t>(i % 2 * (kTokenGroup / 2) + i / 2)] = at[i];
    std::copy(group.begin(), group.end(), at);
  }
}

// Appends the codes, the scale and the sum of a group.
void quantize_group(const float* values, int64_t count, CodedToken& token) {
  float largest = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(values[i]));
    is_finite &= std::isfinite(values[i]);
  }
  // Below this, 1 / scale overflows.
  const bool is_zero = largest < 127 * std::numeric_limits<float>::min();
  const float inverse = is_zero || !is_finite ? 0 : 127 / largest;
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float code = inverse == 0 ? 0 : std::nearbyint(values[i] * inverse);
    token.codes.push_back(static_cast<int16_t>(code));
    sum += code;
  }
  // Zero codes times NaN are NaN, as is a product with an infinite or undefined activation.
  const float scale = is_finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  token.scales.push_back(scale);
  token.sums.push_back(sum * scale);
}

// Calls visit(first, count) for each group.
template <class Visit>
void for_each_group(int64_t columns, const Visit& visit) {
  for (int64_t at = 0; at < columns; at += kTokenGroup)
    visit(at, std::min(kTokenGroup, columns - at));
}

CodedToken quantized(std::span<const float> token) {
  CodedToken to{.columns = std::ssize(token), .format = ActivationFormat::int8};
  for_each_group(to.columns, [&](int64_t first, int64_t count) {
    quantize_group(token.data() + first, count, to);
  });
  return to;
}

}  // namespace

void round_token(std::span<float> token) {
  const CodedToken rounded = quantized(token);
  for (size_t i = 0; i < token.size(); ++i)
    token[i] = static_cast<float>(rounded.codes[i]) * rounded.scales[i / kTokenGroup];
}

CodedToken arranged(std::span<const float> token, ActivationFormat format, bool is_nibbles) {
  if (format == ActivationFormat::int8) {
    CodedToken to = quantized(token);
    if (is_nibbles) split_groups(to.codes);
    return to;
  }
  CodedToken to{.columns = std::ssize(token), .values = {token.begin(), token.end()}};
  for_each_group(to.columns, [&](int64_t first, int64_t count) {
    const auto begin = token.begin() + first;
    to.sums.push_back(std::accumulate(begin, begin + count, 0.0f));
  });
  if (is_nibbles) split_groups(to.values);
  return to;
}

}  // namespace moec
