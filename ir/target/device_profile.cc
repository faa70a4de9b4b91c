#include "ir/target/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace moec {
namespace {

template <class Number>
std::vector<int64_t> distinct(const std::vector<ProductPoint>& points, Number number) {
  std::vector<int64_t> numbers;
  for (const ProductPoint& point : points) numbers.push_back(number(point));
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// A position between two entries of a list, or beyond them: entry `low` plus `share` of the
// difference to entry `high`.
struct Between {
  size_t low = 0, high = 0;
  double share = 0;
  double of(double at_low, double at_high) const {
    if (share <= 1) return at_low + share * (at_high - at_low);
    // Values that decrease would reach zero beyond the list, so they stay as they are.
    return at_high + (share - 1) * std::max(0.0, at_high - at_low);
  }
};

// `at` must not be below the first number.
Between locate(const std::vector<int64_t>& numbers, double at) {
  if (numbers.size() == 1) return {};
  size_t high = 1;
  while (high + 1 < numbers.size() && static_cast<double>(numbers[high]) < at) ++high;
  const auto from = static_cast<double>(numbers[high - 1]), to = static_cast<double>(numbers[high]);
  return {high - 1, high, (at - from) / (to - from)};
}

}  // namespace

std::optional<ProductTimes> ProductTimes::of(std::vector<ProductPoint> points) {
  ProductTimes times;
  times.sizes_ = distinct(points, [](const ProductPoint& point) { return point.weights; });
  times.widths_ = distinct(points, [](const ProductPoint& point) { return point.tokens; });
  std::sort(points.begin(), points.end(), [](const ProductPoint& a, const ProductPoint& b) {
    return std::pair(a.weights, a.tokens) < std::pair(b.weights, b.tokens);
  });
  if (points.empty() || points.size() != times.sizes_.size() * times.widths_.size())
    return std::nullopt;
  for (size_t i = 0; i < points.size(); ++i) {
    const ProductPoint& point = points[i];
    // Duplicates leave another point of the grid without an entry.
    const bool in_grid = point.weights == times.sizes_[i / times.widths_.size()] &&
                         point.tokens == times.widths_[i % times.widths_.size()];
    const bool is_positive = point.weights > 0 && point.tokens > 0 && point.seconds > 0;
    if (!in_grid || !is_positive) return std::nullopt;
  }
  times.points_ = std::move(points);
  return times;
}

double ProductTimes::seconds(double weights, double tokens) const {
  if (points_.empty()) return 0;
  const auto smallest = static_cast<double>(sizes_.front());
  const Between width = locate(widths_, std::max(tokens, static_cast<double>(widths_.front())));
  const Between size = locate(sizes_, std::max(weights, smallest));
  const auto at_size = [&](size_t row) {
    const ProductPoint* points = &points_[row * widths_.size()];
    // With a single measured width, the time grows with the number of tokens.
    if (widths_.size() == 1)
      return points->seconds * std::max(1.0, tokens / static_cast<double>(points->tokens));
    return width.of(points[width.low].seconds, points[width.high].seconds);
  };
  const double seconds = size.of(at_size(size.low), at_size(size.high));
  if (weights < smallest || sizes_.size() == 1) return seconds * weights / smallest;
  return seconds;
}

namespace {

// Kind, bits and block size of a storage form; a block of 0 elements is a whole row.
struct StorageKind {
  enum Kind : uint8_t { plain, affine, palette, other } kind = plain;
  int64_t bits = 0, block = 0;
};

StorageKind kind_of(const WeightForm& form) {
  if (const auto* affine = std::get_if<AffineForm>(&form))
    return {StorageKind::affine, affine->bits, affine->block};
  if (const auto* palette = std::get_if<PaletteForm>(&form))
    return {StorageKind::palette, palette->bits, 0};
  return {is_float(form) ? StorageKind::plain : StorageKind::other, 0, 0};
}

// The size of a block along the inputs of a weight [N, K] or [N, K, 1, 1].
int64_t input_block(const Dims& block) {
  if (block.empty()) return 0;
  return block.rank() == 4 ? block[1] : block.back();
}

StorageKind kind_of(const Encoding& encoding) {
  if (const auto* affine = std::get_if<AffineEncoding>(&encoding))
    return {StorageKind::affine, affine->bits, input_block(affine->block)};
  if (const auto* palette = std::get_if<PaletteEncoding>(&encoding))
    return {StorageKind::palette, palette->bits, 0};
  return {};
}

double log_block(int64_t block, int64_t inner) {
  return std::log2(static_cast<double>(std::max<int64_t>(block == 0 ? inner : block, 1)));
}

}  // namespace

const ProductTimes* DeviceProfile::times_of(const Encoding& encoding, DType dtype,
                                            int64_t inner) const {
  // Larger than any difference of block sizes, so that the type of the values decides first.
  constexpr double kOtherType = 64;
  const StorageKind wanted = kind_of(encoding);
  const ProductTimes* nearest = nullptr;
  double least = 0;
  for (const FormTimes& form : forms) {
    const StorageKind kind = kind_of(form.form);
    if (kind.kind != wanted.kind || kind.bits != wanted.bits) continue;
    // The type of plain values is their storage, so another type has another speed.
    if (kind.kind == StorageKind::plain && form.dtype != dtype) continue;
    const double distance =
        std::abs(log_block(kind.block, inner) - log_block(wanted.block, inner)) +
        (form.dtype == dtype ? 0 : kOtherType);
    if (nearest != nullptr && distance >= least) continue;
    nearest = &form.times;
    least = distance;
  }
  return nearest;
}

double DeviceProfile::read_rate(double bytes) const {
  if (reads.empty()) return 0;
  std::vector<int64_t> sizes;
  for (const RandomReads& read : reads) sizes.push_back(read.bytes);
  const double within =
      std::clamp(bytes, static_cast<double>(sizes.front()), static_cast<double>(sizes.back()));
  const Between at = locate(sizes, within);
  return at.of(reads[at.low].rate, reads[at.high].rate);
}

std::string DeviceProfile::machine() const {
  return fmt::format("{} with {} thread{} ({})", engine, threads, threads == 1 ? "" : "s", vectors);
}

}  // namespace moec
