// Compares the kernels of each kind of vectors with the portable kernels bit for bit.
#include "backends/weights/encode/affine_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "tests/vector_targets.h"

namespace moec {
namespace {

struct KernelCase {
  std::vector<float> values;
  AffineRule rule;
  AffineCodes codes;
};

// Covers every count below 72, a long row, both zeros, ties, and values out of range.
std::vector<KernelCase> kernel_cases() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<KernelCase> cases;
  for (size_t count = 0; count < 72; ++count)
    for (int bits : {2, 4, 8})
      for (float zero : {0.0f, -1.0f}) {
        std::vector<float> values(count < 70 ? count : 997 * (count - 68));
        for (float& value : values) value = normal(random);
        for (size_t i = 0; i < values.size(); i += 5)
          values[i] = std::array{0.0f, -0.0f, 0.015f, -0.025f, 1e30f, -3e38f}[i / 5 % 6];
        const float half = static_cast<float>(1 << (bits - 1));
        const AffineRule rule{100, bits == 8 ? -127 : -half, half - 1, zero};
        cases.push_back({values, rule, {bits, false}});
        cases.push_back({std::move(values), rule, {bits, true}});
      }
  return cases;
}

TEST(AffineKernels, FindEqualExtentsAndFits) {
  const AffineKernels& portable = portable_affine();
  for_each_vector_target([&] {
    for (const auto& [values, rule, codes] : kernel_cases()) {
      const AffineExtent extent = best_affine().extent(values.data(), values.size()),
                         expected = portable.extent(values.data(), values.size());
      ASSERT_EQ(extent.low, expected.low) << values.size();
      ASSERT_EQ(extent.high, expected.high) << values.size();
      const AffineFit fit = best_affine().fit(values.data(), values.size(), rule),
                      wanted = portable.fit(values.data(), values.size(), rule);
      ASSERT_EQ(std::bit_cast<uint64_t>(fit.products), std::bit_cast<uint64_t>(wanted.products));
      ASSERT_EQ(std::bit_cast<uint64_t>(fit.squares), std::bit_cast<uint64_t>(wanted.squares));
    }
  });
}

TEST(AffineKernels, WriteEqualCodesAndValues) {
  const AffineKernels& portable = portable_affine();
  for_each_vector_target([&] {
    for (const auto& [values, rule, codes] : kernel_cases()) {
      std::vector<uint8_t> found(values.size()), expected(values.size());
      best_affine().encode(values.data(), values.size(), rule, codes, found.data());
      portable.encode(values.data(), values.size(), rule, codes, expected.data());
      ASSERT_EQ(found, expected) << values.size();
      std::vector<float> decoded(values.size()), wanted(values.size());
      best_affine().decode(found.data(), found.size(), codes, 0.01f, -1, decoded.data());
      portable.decode(found.data(), found.size(), codes, 0.01f, -1, wanted.data());
      ASSERT_EQ(decoded, wanted) << values.size();
    }
  });
}

TEST(AffineKernels, SumsElementsPerLaneInOrder) {
  std::vector<float> values(33, 1.0f);
  values[0] = 16777216.0f;  // 2^24: adding 1 does not change it in f32
  const AffineFit fit = portable_affine().fit(values.data(), values.size(), {1, 0, 1, 0});
  EXPECT_EQ(fit.products, 16777216.0 + 30);
  EXPECT_EQ(fit.squares, 33.0);
}

}  // namespace
}  // namespace moec
