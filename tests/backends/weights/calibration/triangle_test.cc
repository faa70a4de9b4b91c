#include "backends/weights/calibration/triangle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

namespace moec {
namespace {

std::string stored(const Hessian& block) {
  std::string bytes;
  EXPECT_TRUE(write_triangle(block, [&](std::span<const std::byte> part) -> Status {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    return {};
  }));
  return bytes;
}

// Second moments of inputs whose magnitudes range from 1e-18 to 1e18; input 3 is always 0.
Hessian moments(int64_t inputs) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  const auto size = static_cast<size_t>(inputs);
  std::vector<double> sums(size * size), x(size);
  for (int token = 0; token < 50; ++token) {
    for (size_t i = 0; i < size; ++i)
      x[i] = i == 3 ? 0 : (normal(random) + 2) * std::pow(10, static_cast<double>(i % 37) - 18);
    for (size_t i = 0; i < size; ++i)
      for (size_t j = 0; j < size; ++j) sums[i * size + j] += x[i] * x[j];
  }
  return {inputs, 50, {sums.begin(), sums.end()}};
}

TEST(Triangle, DecodesElementsWithinHalfAStep) {
  for (const int64_t inputs : {1, 2, 40, 300}) {
    const Hessian block = moments(inputs);
    const std::string bytes = stored(block);
    const auto form = TriangleForm::correlations;
    ASSERT_EQ(bytes.size(), row_offset(form, inputs, inputs));
    TriangleRows rows(form, std::string_view(bytes).substr(0, row_offset(form, inputs, 0)));
    const auto size = static_cast<size_t>(inputs);
    for (size_t i = 0; i < size; ++i) {
      const auto row = static_cast<int64_t>(i);
      const auto decoded = rows.decode(row, bytes.data() + row_offset(form, inputs, row));
      ASSERT_EQ(decoded.size(), i + 1);
      EXPECT_EQ(decoded[i], block.sums[i * (size + 1)]) << "the diagonal is exact";
      for (size_t j = 0; j < i; ++j) {
        const double expected = block.sums[i * size + j];
        const double scale = std::sqrt(static_cast<double>(block.sums[i * (size + 1)])) *
                             std::sqrt(static_cast<double>(block.sums[j * (size + 1)]));
        ASSERT_NEAR(decoded[j], expected, scale * 1.01 / 65534) << i << " " << j;
      }
    }
  }
}

TEST(Triangle, HalvesTheBytesOfSums) {
  const auto bytes = [](TriangleForm form) {
    return static_cast<double>(row_offset(form, 2048, 2048));
  };
  EXPECT_EQ(bytes(TriangleForm::sums), 2048 * 2049 / 2 * 4);
  EXPECT_LT(bytes(TriangleForm::correlations) / bytes(TriangleForm::sums), 0.501);
}

}  // namespace
}  // namespace moec
