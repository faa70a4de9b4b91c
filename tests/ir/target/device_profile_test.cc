// Device profiles: interpolation of measured times, and strict reading of their files.
#include "ir/target/device_profile.h"

#include <gmock/gmock.h>

#include <string>

namespace moec {
namespace {

using testing::HasSubstr;

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

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

const std::string kText = R"({
  "format": "moec device profile", "version": 1,
  "engine": "cpu", "vectors": "AVX2", "threads": 2,
  "memory_bytes": 8000000000, "memory_rate": 2e10,
  "forms": [{"form": "int4:32", "dtype": "f16",
             "times": [{"weights": 100, "tokens": 1, "seconds": 0.5}]}],
  "activations": [{"weights": 100, "tokens": 1, "seconds": 0.25}],
  "element_seconds": {"move": 1e-9, "transpose": 2e-9, "arithmetic": 3e-9, "exponential": 4e-9,
                      "reduce": 5e-9},
  "op_seconds": 1e-6, "idle_op_seconds": 1e-8, "run_seconds": 2e-6,
  "sequential_rate": 1e9, "random_reads": [{"bytes": 4096, "rate": 1e8}]
})";

TEST(DeviceProfile, ReadsEveryField) {
  const auto profile = parse_device_profile(kText, "p.json");
  ASSERT_TRUE(profile) << render(profile.error());
  EXPECT_EQ(profile->engine, "cpu");
  EXPECT_EQ(profile->vectors, "AVX2");
  EXPECT_EQ(profile->threads, 2);
  EXPECT_EQ(profile->memory_bytes, 8'000'000'000);
  EXPECT_EQ(profile->memory_rate, 2e10);
  ASSERT_EQ(profile->forms.size(), 1u);
  EXPECT_EQ(to_string(profile->forms[0].form), "int4:32");
  EXPECT_EQ(profile->forms[0].dtype, DType::f16);
  EXPECT_EQ(profile->forms[0].times.seconds(100, 1), 0.5);
  EXPECT_EQ(profile->activations.seconds(100, 1), 0.25);
  EXPECT_EQ(profile->element_seconds, (std::array{1e-9, 2e-9, 3e-9, 4e-9, 5e-9}));
  EXPECT_EQ(profile->op_seconds, 1e-6);
  EXPECT_EQ(profile->idle_op_seconds, 1e-8);
  EXPECT_EQ(profile->run_seconds, 2e-6);
  EXPECT_EQ(profile->sequential_rate, 1e9);
  EXPECT_EQ(profile->reads, (std::vector<RandomReads>{{4096, 1e8}}));
}

struct BadText {
  const char *from, *to, *code;
};

TEST(DeviceProfile, RejectsBadFiles) {
  for (const BadText& bad : {
           BadText{"{", "[", "device_profile.syntax"},
           BadText{"\"threads\": 2", "\"threads\": 2, \"cores\": 2",
                   "device_profile.unknown_field"},
           BadText{"\"threads\": 2,", "", "device_profile.missing_field"},
           BadText{"\"threads\": 2", "\"threads\": 2, \"threads\": 2",
                   "device_profile.duplicate_key"},
           BadText{"\"threads\": 2", "\"threads\": 0", "device_profile.bad_value"},
           BadText{"\"version\": 1", "\"version\": 2", "device_profile.bad_value"},
           BadText{"moec device profile", "moec trace", "device_profile.bad_value"},
           BadText{"int4:32", "int5", "device_profile.bad_value"},
           BadText{"int4:32", "q8_0", "device_profile.bad_value"},
           BadText{"\"f16\"", "\"i32\"", "device_profile.bad_value"},
           BadText{"\"seconds\": 0.5", "\"seconds\": 0", "device_profile.bad_value"},
           BadText{"\"seconds\": 0.5", "\"seconds\": 0.5, \"mean\": 1",
                   "device_profile.unknown_field"},
           BadText{"\"seconds\": 0.25}",
                   "\"seconds\": 0.25}, {\"weights\": 9, \"tokens\": 9, "
                   "\"seconds\": 1}",
                   "device_profile.bad_value"},
           BadText{"\"move\": 1e-9", "\"moves\": 1e-9", "device_profile.missing_field"},
           BadText{"2e10", "-1", "device_profile.bad_value"},
           BadText{"[{\"bytes\": 4096, \"rate\": 1e8}]", "[]", "device_profile.bad_value"},
           BadText{"\"rate\": 1e8}", "\"rate\": 1e8}, {\"bytes\": 4096, \"rate\": 1e8}",
                   "device_profile.bad_value"},
       }) {
    const auto profile = parse_device_profile(replaced(kText, bad.from, bad.to), "p.json");
    ASSERT_FALSE(profile) << bad.to;
    EXPECT_EQ(profile.error().front().code, bad.code) << bad.to;
    EXPECT_EQ(profile.error().front().place.file, "p.json") << bad.to;
    EXPECT_THAT(profile.error().front().next_step, HasSubstr("moec doctor")) << bad.to;
  }
}

TEST(DeviceProfile, RejectsMissingFiles) {
  const auto profile = read_device_profile(testing::TempDir() + "/absent.json");
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().front().code, "device_profile.file");
}

}  // namespace
}  // namespace moec
