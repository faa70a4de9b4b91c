#include "backends/weights/encode/affine.h"

#include <algorithm>
#include <array>
#include <bit>

#include "backends/weights/encode/affine_kernels.h"

namespace moec {
namespace {

// Candidate scales, relative to the scale that spans all values. Clipping the largest values
// slightly makes the steps for all other values finer. Below 0.65, the clipping error outweighs
// this gain.
constexpr std::array kShrink = {1.0f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 0.65f};

// The smallest normal f16 number: subnormal scales would have fewer significant bits.
constexpr float kLeastF16 = 0x1p-14f;

AffineRule rule_of(const AffineBlock& block, CodeRange range) {
  return {1 / block.scale, static_cast<float>(range.low), static_cast<float>(range.high),
          static_cast<float>(block.zero)};
}

float allowed_scale(float scale, ScalePrecision precision) {
  // 2^-126 is the smallest normal f32 number: the inverse of a subnormal scale can overflow.
  if (precision == ScalePrecision::f32) return std::max(scale, 0x1p-126f);
  const float rounded = round_significand(scale, static_cast<int>(precision));
  return std::clamp(rounded, kLeastF16, kLargestAffineScale);
}

// Returns the quality of the fit of scale × steps to the values, independent of the scale. With the
// best scale, products / squares, the squared error is Σ value² − products² / squares.
double gain(const AffineFit& fit) {
  return fit.squares > 0 && fit.products > 0 ? fit.products * fit.products / fit.squares : 0;
}

// Returns the scale and zero point with which the codes span the extent times `shrink`.
AffineBlock spanning(const AffineExtent& extent, CodeRange range, float shrink,
                     const AffineOptions& options) {
  const float low = extent.low * shrink, high = extent.high * shrink;
  // Without a zero point, the largest positive code determines the scale, because its negative is a
  // code too.
  if (!options.zero_point) {
    const float codes = static_cast<float>(range.high);
    return {allowed_scale(std::max(-low, high) / codes, options.precision), 0};
  }
  const float codes = static_cast<float>(range.high - range.low);
  const float scale = allowed_scale((high - low) / codes, options.precision);
  const float zero = static_cast<float>(range.low) - low / scale;
  // The zero point is itself a code, so it is rounded and clamped to the range of codes.
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
  const AffineKernels& kernels = best_affine();
  const CodeRange range = affine_codes(options.bits);
  const AffineExtent extent = kernels.extent(values.data(), values.size());
  // All values are 0, which the default block represents exactly.
  if (extent.low == 0 && extent.high == 0) return {};
  // With 8 bits, steps are so fine that clipping never pays.
  const size_t tries = options.bits == 8 ? 1 : kShrink.size();
  AffineBlock best;
  AffineFit best_fit;
  for (float shrink : std::span(kShrink).first(tries)) {
    const AffineBlock block = spanning(extent, range, shrink, options);
    const AffineFit fit = kernels.fit(values.data(), values.size(), rule_of(block, range));
    // A tie keeps the earlier, larger scale, which clips less.
    if (best_fit.squares > 0 && gain(fit) <= gain(best_fit)) continue;
    best = block;
    best_fit = fit;
  }
  // For given codes, the error is least at scale = Σ steps·value / Σ steps². encode_affine() then
  // computes codes for this scale.
  if (gain(best_fit) > 0)
    best.scale =
        allowed_scale(static_cast<float>(best_fit.products / best_fit.squares), options.precision);
  return best;
}

void encode_affine(std::span<const float> values, const AffineBlock& block, int bits, CodeForm form,
                   std::span<uint8_t> codes) {
  best_affine().encode(values.data(), values.size(), rule_of(block, affine_codes(bits)),
                       {bits, form == CodeForm::excess}, codes.data());
}

void decode_affine(std::span<const uint8_t> codes, const AffineBlock& block, int bits,
                   CodeForm form, std::span<float> values) {
  best_affine().decode(codes.data(), codes.size(), {bits, form == CodeForm::excess}, block.scale,
                       block.zero, values.data());
}

}  // namespace moec
