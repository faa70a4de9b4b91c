// Interface of the kernels of an engine. Without kernels, the reference executor sums in Eigen's
// order and decodes most coded weights to f32. With kernels, an engine keeps every weight that they
// can read in its stored form.
#pragma once

#include <functional>
#include <span>

#include "backends/reference/stored_weight.h"

namespace moec {

// A factor of a product, starting at one of its elements: a matrix in memory, or a stored weight.
struct Factor {
  const float* values = nullptr;         // null if the factor is stored
  const StoredWeight* stored = nullptr;  // its elements starting at `begin`
  int64_t begin = 0;
};

// [rows, inner] · [inner, columns], both row-major.
struct ProductSizes {
  int64_t rows = 0, inner = 0, columns = 0;
};

// A product of one token with a matrix: out [outputs] = weight · token.
struct TokenProduct {
  Factor weight;
  bool is_columns = false;  // the matrix is [inner, outputs], otherwise [outputs, inner]
  const float* token = nullptr;
  int64_t inner = 0, outputs = 0;
  float* out = nullptr;
};

class Products {
 public:
  // Products with fewer multiplications are too small to justify waking threads.
  static constexpr int64_t kSmallProduct = int64_t{128} << 10;

  virtual ~Products() = default;

  // out [rows, columns] = a · b. At most one factor is stored. If `b_is_turned` is set, or b is a
  // turned stored weight, b is stored as its transpose [columns, inner]. If a is stored, b is not
  // turned.
  virtual void multiply(const Factor& a, const Factor& b, bool b_is_turned,
                        const ProductSizes& sizes, float* out) const = 0;

  // Computes all products, with the same results as multiply(). Their threads meet once, and a
  // token of consecutive products is arranged once.
  virtual void multiply_tokens(std::span<const TokenProduct> products) const = 0;

  // to[i] = e^x[i] / Σ e^x[j], and 1 / (1 + e^-x[i]); NaN remains NaN. `to` may be `x`.
  virtual void softmax(const float* x, int64_t count, float* to) const = 0;
  virtual void sigmoid(const float* x, int64_t count, float* to) const = 0;

  // Calls work(begin, end) for disjoint ranges that cover [0, count), possibly on several threads.
  // For work on independent elements, whose results do not depend on the division.
  virtual void divide(int64_t count,
                      const std::function<void(int64_t begin, int64_t end)>& work) const = 0;
  // The same for `count` lines of `size` elements, divided if they are worth waking threads.
  void divide_lines(int64_t count, int64_t size,
                    const std::function<void(int64_t begin, int64_t end)>& work) const {
    constexpr int64_t kFewElements = 16 << 10;
    if (size * count < kFewElements) return work(0, count);
    divide(count, work);
  }
};

}  // namespace moec
