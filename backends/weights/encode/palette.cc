#include "backends/weights/encode/palette.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ir/graph/scalar.h"

namespace moec {
namespace {

constexpr uint32_t kPatterns = 1u << 16, kSign = 1u << 15;
// Number of counts that are tested together; most are 0.
constexpr uint32_t kRun = 32;

// Copied with memcpy(), because `from` may be unaligned.
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float value_of(DType dtype, uint16_t pattern) {
  return dtype == DType::f16 ? f32_from_f16(pattern) : f32_from_bf16(pattern);
}

}  // namespace

uint8_t nearest_entry(float value, std::span<const float> entries) {
  // `above` is the first entry not below the value. The entry before it wins a tie; the second
  // search finds the lowest of equal entries.
  auto above = std::lower_bound(entries.begin(), entries.end(), value);
  if (above != entries.begin() && (above == entries.end() || value - above[-1] <= *above - value))
    above = std::lower_bound(entries.begin(), above, above[-1]);
  return static_cast<uint8_t>(above - entries.begin());
}

PaletteEncoder::PaletteEncoder(DType dtype, int bits)
    : dtype_(dtype),
      bits_(bits),
      counts_(kPatterns, 0),
      sums_(dtype == DType::f32 ? kPatterns : 0, 0),
      // A 16-bit value is its own pattern, so its code is looked up instead of searched. f32 values
      // need sums, because a pattern covers many values.
      codes_(dtype == DType::f32 ? 0 : kPatterns, 0) {}

std::vector<float> PaletteEncoder::encode(std::span<const std::byte> values,
                                          std::span<uint8_t> codes) {
  count(values);
  std::vector<float> entries;
  for (double entry : optimal_palette(take_histogram(), 1 << bits_))
    entries.push_back(rounded(entry));
  if (dtype_ != DType::f32) {
    encode_patterns(values, entries, codes);
    return entries;
  }
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = nearest_entry(load<float>(values.data() + i * sizeof(float)), entries);
  return entries;
}

void PaletteEncoder::count(std::span<const std::byte> values) {
  // All other counts are 0 already.
  for (uint16_t pattern : patterns_) counts_[pattern] = 0;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  if (dtype_ != DType::f32) {
    for (size_t at = 0; at < values.size(); at += sizeof(uint16_t))
      ++counts_[load<uint16_t>(values.data() + at)];
    return;
  }
  for (size_t at = 0; at < values.size(); at += sizeof(float)) {
    const auto value = load<float>(values.data() + at);
    // The upper 16 bits are the bf16 pattern of the truncated value, so patterns of one sign sort
    // by magnitude.
    const uint32_t pattern = std::bit_cast<uint32_t>(value) >> 16;
    ++counts_[pattern];
    sums_[pattern] += static_cast<double>(value);
  }
}

const std::vector<uint16_t>& PaletteEncoder::find_patterns() {
  patterns_.clear();
  for (uint32_t begin = 0; begin < kPatterns; begin += kRun) {
    uint32_t any = 0;
    for (uint32_t pattern = begin; pattern < begin + kRun; ++pattern) any |= counts_[pattern];
    for (uint32_t pattern = begin; any != 0 && pattern < begin + kRun; ++pattern)
      if (counts_[pattern] != 0) patterns_.push_back(static_cast<uint16_t>(pattern));
  }
  // Sort by value: negative patterns are in descending order of value, so reverse them and put them
  // first.
  const auto negative = std::lower_bound(patterns_.begin(), patterns_.end(), kSign);
  std::rotate(patterns_.begin(), negative, patterns_.end());
  std::reverse(patterns_.begin(), patterns_.begin() + (patterns_.end() - negative));
  return patterns_;
}

Histogram PaletteEncoder::take_histogram() {
  Histogram histogram;
  for (uint16_t pattern : find_patterns()) {
    const double weight = counts_[pattern];
    // Σ (v − e)² = Σ (v − mean)² + n·(mean − e)². So the mean represents all values of a pattern
    // that share an entry e.
    const double value = dtype_ == DType::f32 ? sums_[pattern] / weight
                                              : static_cast<double>(value_of(dtype_, pattern));
    // +0 and −0 are one value.
    if (!histogram.values.empty() && histogram.values.back() >= value) {
      histogram.weights.back() += weight;
      continue;
    }
    histogram.values.push_back(value);
    histogram.weights.push_back(weight);
  }
  return histogram;
}

float PaletteEncoder::rounded(double entry) const {
  const auto value = static_cast<float>(entry);
  if (dtype_ == DType::f16) return f32_from_f16(f16_from_f32(value));
  if (dtype_ == DType::bf16) return f32_from_bf16(bf16_from_f32(value));
  return value;
}

void PaletteEncoder::encode_patterns(std::span<const std::byte> values,
                                     std::span<const float> entries, std::span<uint8_t> codes) {
  // Each pattern is searched once, although it can occur many times.
  for (uint16_t pattern : patterns_)
    codes_[pattern] = nearest_entry(value_of(dtype_, pattern), entries);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = codes_[load<uint16_t>(values.data() + i * sizeof(uint16_t))];
}

}  // namespace moec
