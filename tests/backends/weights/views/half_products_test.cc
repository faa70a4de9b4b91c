// Compares products of 16-bit floats with sums in the documented order, bit for bit.
#include "backends/weights/views/half_products.h"

#include "backends/weights/views/convert.h"
#include "tests/backends/weights/views/testing.h"
#include "tests/vector_targets.h"

namespace moec {
namespace {

constexpr int64_t kHalfRows = 7, kHalfColumns = 45;

struct Matrix {
  Bytes halves;
  std::vector<float> values;
};

Matrix random_matrix(DType dtype) {
  std::mt19937 random(5);
  Matrix matrix{Bytes(2 * kHalfRows * kHalfColumns), std::vector<float>(kHalfRows * kHalfColumns)};
  for (float& value : matrix.values) value = static_cast<float>(random() % 999) / 500.0f - 1.0f;
  encode(dtype, matrix.values.data(), matrix.values.size(), matrix.halves.data());
  decode(dtype, matrix.halves.data(), matrix.values.size(), matrix.values.data());
  return matrix;
}

std::vector<float> factors(int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i % 11) - 1.6f;
  return x;
}

float dot_in_order(const float* w, const float* x) {
  std::array<float, 4> sums{};
  size_t i = 0;
  for (; i < kHalfColumns / 4 * 4; ++i) {
    const float product = w[i] * x[i];
    sums[i % 4] += product;
  }
  float sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  for (; i < kHalfColumns; ++i) {
    const float product = w[i] * x[i];
    sum += product;
  }
  return sum;
}

TEST(HalfProducts, DotRowsInOrder) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Matrix w = random_matrix(dtype);
    const std::vector<float> x = factors(kHalfColumns);
    for_each_vector_target([&] {
      const HalfProducts* products = half_products(dtype);
      if (products == nullptr) return;
      std::vector<float> out(kHalfRows, 0.25f);
      products->dot_rows(w.halves.data(), kHalfRows, kHalfColumns, x.data(), out.data());
      for (size_t r = 0; r < kHalfRows; ++r)
        EXPECT_EQ(out[r], 0.25f + dot_in_order(&w.values[r * kHalfColumns], x.data())) << r;
    });
  }
}

TEST(HalfProducts, AddRowsInOrder) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Matrix w = random_matrix(dtype);
    const std::vector<float> x = factors(kHalfRows);
    for_each_vector_target([&] {
      const HalfProducts* products = half_products(dtype);
      if (products == nullptr) return;
      std::vector<float> out(kHalfColumns, 0.25f);
      products->add_rows(w.halves.data(), kHalfRows, kHalfColumns, kHalfColumns, x.data(),
                         out.data());
      for (size_t c = 0; c < kHalfColumns; ++c) {
        float sum = 0;
        for (size_t r = 0; r < kHalfRows; ++r) {
          const float product = w.values[r * kHalfColumns + c] * x[r];
          sum += product;
        }
        EXPECT_EQ(out[c], 0.25f + sum) << c;
      }
    });
  }
}

}  // namespace
}  // namespace moec
