// Scalar kernels, written so that compilers vectorise them.
#include "backends/weights/encode/affine_kernels.h"

namespace moec {
namespace {

AffineExtent extent_of(const float* values, size_t count) {
  AffineExtent extent;
  for (size_t i = 0; i < count; ++i) {
    extent.low = std::min(extent.low, values[i]);
    extent.high = std::max(extent.high, values[i]);
  }
  return extent;
}

AffineFit fit_of(const float* values, size_t count, const AffineRule& rule) {
  constexpr size_t kLanes = AffineSums::kLanes;
  AffineSums sums;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) sums.add(lane, values[i + lane], rule);
  // The rest begins in lane 0, as in the vector versions, so all add the same numbers in the same
  // order.
  for (size_t lane = 0; i < count; ++i, ++lane) sums.add(lane, values[i], rule);
  return sums.total();
}

void encode_each(const float* values, size_t count, const AffineRule& rule,
                 const AffineCodes& codes, uint8_t* to) {
  for (size_t i = 0; i < count; ++i) to[i] = codes.stored(static_cast<int>(rule.number(values[i])));
}

void decode_each(const uint8_t* stored, size_t count, const AffineCodes& codes, float scale,
                 int zero, float* to) {
  for (size_t i = 0; i < count; ++i)
    to[i] = static_cast<float>(codes.number(stored[i]) - zero) * scale;
}

}  // namespace

const AffineKernels& portable_affine() {
  static constexpr AffineKernels kKernels = {"portable", extent_of, fit_of, encode_each,
                                             decode_each};
  return kKernels;
}

}  // namespace moec
