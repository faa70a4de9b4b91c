// Kernels of affine.h, one version per vector target of Highway. All versions return the same bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/weights/encode/round_even.h"

namespace moec {

// Maps values to numbers: round to even(value × inverse + zero), clamped to [low, high].
struct AffineRule {
  float inverse = 1, low = 0, high = 0, zero = 0;

  // Clamps before rounding, because round_even() is exact only for small magnitudes.
  float number(float value) const {
    return round_even(std::min(std::max(value * inverse + zero, low), high));
  }
};

// Storage format of numbers: their lowest `bits` bits. With `excess`, the highest of these bits is
// inverted.
struct AffineCodes {
  int bits = 8;
  bool excess = false;

  unsigned mask() const { return (1u << bits) - 1; }
  unsigned turned() const { return excess ? 1u << (bits - 1) : 0; }
  uint8_t stored(int number) const {
    return static_cast<uint8_t>((static_cast<unsigned>(number) & mask()) ^ turned());
  }
  int number(uint8_t stored) const {
    const int half = 1 << (bits - 1), code = static_cast<int>(stored ^ turned());
    return code < half ? code : code - 2 * half;
  }
};

struct AffineExtent {
  float low = 0, high = 0;  // low ≤ 0 ≤ high
};

// Σ steps × value and Σ steps², with steps = number − zero.
struct AffineFit {
  double products = 0, squares = 0;
};

// Element i is added to partial sum i % 16; the partial sums are then added in order. This fixes
// the rounding for every vector width.
struct AffineSums {
  static constexpr size_t kLanes = 16;
  std::array<float, kLanes> products{}, squares{};

  void add(size_t lane, float value, const AffineRule& rule) {
    const float steps = rule.number(value) - rule.zero;
    products[lane] += steps * value;
    squares[lane] += steps * steps;
  }
  AffineFit total() const {
    AffineFit fit;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      fit.products += static_cast<double>(products[lane]);
      fit.squares += static_cast<double>(squares[lane]);
    }
    return fit;
  }
};

struct AffineKernels {
  const char* name;
  AffineExtent (*extent)(const float* values, size_t count);
  AffineFit (*fit)(const float* values, size_t count, const AffineRule& rule);
  void (*encode)(const float* values, size_t count, const AffineRule& rule,
                 const AffineCodes& codes, uint8_t* to);
  // Computes (number − zero) × scale.
  void (*decode)(const uint8_t* stored, size_t count, const AffineCodes& codes, float scale,
                 int zero, float* to);
};

// Returns the scalar version, which is the definition of the others.
const AffineKernels& portable_affine();
// Returns the version with the widest vectors of this CPU.
const AffineKernels& best_affine();

}  // namespace moec
