// Device profiles: interpolation of measured times, and choice of storage forms.
#include "ir/target/device_profile.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

ProductTimes grid() {
  return *ProductTimes::of(
      {{100, 1, 1.0}, {100, 4, 2.0}, {300, 1, 2.0}, {300, 4, 6.0}});  // weights, tokens, seconds
}

TEST(ProductTimes, ReturnsMeasuredPoints) {
  EXPECT_DOUBLE_EQ(grid().seconds(100, 1), 1.0);
  EXPECT_DOUBLE_EQ(grid().seconds(300, 4), 6.0);
}

TEST(ProductTimes, InterpolatesAlongBothAxes) {
  EXPECT_DOUBLE_EQ(grid().seconds(200, 1), 1.5);
  EXPECT_DOUBLE_EQ(grid().seconds(100, 2), 1 + 1.0 / 3);
  // Between 1.5 at one token and 4 at four tokens.
  EXPECT_DOUBLE_EQ(grid().seconds(200, 2.5), 2.75);
}

TEST(ProductTimes, ContinuesBeyondTheGrid) {
  EXPECT_DOUBLE_EQ(grid().seconds(500, 1), 3.0);
  EXPECT_DOUBLE_EQ(grid().seconds(300, 7), 10.0);
  EXPECT_DOUBLE_EQ(grid().seconds(50, 1), 0.5) << "proportional below the smallest size";
  EXPECT_DOUBLE_EQ(grid().seconds(100, 0.5), 1.0) << "at least one token";
}

// More tokens can take less time, for example if only their number makes the engine use threads.
TEST(ProductTimes, StaysPositiveBeyondDecreasingTimes) {
  const auto tokens = *ProductTimes::of({{262144, 1, 1e-4}, {262144, 4, 5e-5}});
  EXPECT_DOUBLE_EQ(tokens.seconds(262144, 64), 5e-5);
  EXPECT_DOUBLE_EQ(tokens.seconds(262144, 2.5), 7.5e-5) << "between the points";
  const auto weights = *ProductTimes::of({{100, 1, 2.0}, {300, 1, 1.0}});
  EXPECT_DOUBLE_EQ(weights.seconds(700, 1), 1.0);
}

TEST(ProductTimes, ScalesASinglePoint) {
  const auto times = *ProductTimes::of({{100, 2, 1.0}});
  EXPECT_DOUBLE_EQ(times.seconds(300, 2), 3.0);
  EXPECT_DOUBLE_EQ(times.seconds(100, 6), 3.0);
}

TEST(ProductTimes, RejectsIncompleteGrids) {
  EXPECT_FALSE(ProductTimes::of({}));
  EXPECT_FALSE(ProductTimes::of({{100, 1, 1.0}, {300, 4, 1.0}}));
  EXPECT_FALSE(ProductTimes::of({{100, 1, 1.0}, {100, 1, 1.0}}));
  EXPECT_FALSE(ProductTimes::of({{100, 1, 0.0}}));
}

DeviceProfile with_forms() {
  DeviceProfile profile;
  double seconds = 1;
  const auto add = [&](WeightForm form, DType dtype) {
    profile.forms.push_back({form, dtype, *ProductTimes::of({{100, 1, seconds++}})});
  };
  add(FloatForm{}, DType::f32);                                                     // 1 s
  add(FloatForm{}, DType::f16);                                                     // 2 s
  add(AffineForm{.bits = 8}, DType::f32);                                           // 3 s
  add(AffineForm{.bits = 8, .scope = ScaleScope::block, .block = 32}, DType::f32);  // 4 s
  add(AffineForm{.bits = 8}, DType::f16);                                           // 5 s
  add(PaletteForm{.bits = 4}, DType::f16);                                          // 6 s
  return profile;
}

double seconds_of(const Encoding& encoding, DType dtype) {
  const DeviceProfile profile = with_forms();
  const ProductTimes* times = profile.times_of(encoding, dtype, 2048);
  return times ? times->seconds(100, 1) : 0;
}

TEST(DeviceProfile, ChoosesTheMostSimilarForm) {
  EXPECT_EQ(seconds_of(PlainEncoding{}, DType::f16), 2);
  EXPECT_EQ(seconds_of(AffineEncoding{8, {1, 2048}}, DType::f32), 3);
  EXPECT_EQ(seconds_of(AffineEncoding{8, {1, 64}}, DType::f32), 4) << "nearest block size";
  EXPECT_EQ(seconds_of(AffineEncoding{8, {1, 32}}, DType::f16), 5) << "type before block size";
  EXPECT_EQ(seconds_of(PaletteEncoding{4, {16, 2048}}, DType::f32), 6) << "any type is better";
}

// A convolution has weights [N, K, 1, 1].
TEST(DeviceProfile, FindsTheBlocksOfConvolutions) {
  EXPECT_EQ(seconds_of(AffineEncoding{8, {1, 2048, 1, 1}}, DType::f32), 3);
  EXPECT_EQ(seconds_of(AffineEncoding{8, {1, 64, 1, 1}}, DType::f32), 4);
}

TEST(DeviceProfile, HasNoTimesOfOtherBits) {
  EXPECT_EQ(seconds_of(AffineEncoding{4, {1, 32}}, DType::f32), 0);
  EXPECT_EQ(seconds_of(PlainEncoding{}, DType::bf16), 0) << "plain values are stored in their type";
}

TEST(DeviceProfile, InterpolatesRatesOfReads) {
  DeviceProfile profile;
  profile.reads = {{100, 1000}, {300, 3000}};
  EXPECT_DOUBLE_EQ(profile.read_rate(200), 2000);
  EXPECT_DOUBLE_EQ(profile.read_rate(50), 1000);
  EXPECT_DOUBLE_EQ(profile.read_rate(900), 3000);
}

TEST(DeviceProfile, NamesTheMachine) {
  DeviceProfile profile{.engine = "cpu", .vectors = "AVX2", .threads = 8};
  EXPECT_EQ(profile.machine(), "cpu with 8 threads (AVX2)");
  profile.threads = 1;
  EXPECT_EQ(profile.machine(), "cpu with 1 thread (AVX2)");
}

}  // namespace
}  // namespace moec
