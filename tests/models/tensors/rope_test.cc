// Compares each formula with an independent direct calculation.
#include "models/tensors/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moec {
namespace {

RopeConfig plain(int64_t dims, double theta) {
  RopeConfig rope;
  rope.dims = dims;
  rope.theta = theta;
  return rope;
}

double frequency(const RopeConfig& rope, size_t i) {
  return std::exp(-2.0 * static_cast<double>(i) * std::log(rope.theta) /
                  static_cast<double>(rope.dims));
}

TEST(Rope, MatchesTheDefault) {
  RopeConfig rope = plain(8, 10000);
  std::vector<double> f = inverse_frequencies(rope);
  ASSERT_EQ(f.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(f[i], std::pow(10.0, -static_cast<double>(i)), 1e-15);
  EXPECT_EQ(rope_amplitude(rope), 1);
}

TEST(Rope, MatchesLinearScaling) {
  RopeConfig rope = plain(12, 500000);
  rope.scaling = RopeScaling::linear;
  rope.factor = 8;
  std::vector<double> f = inverse_frequencies(rope);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(f[i], frequency(rope, i) / 8, 1e-15);
}

// With these numbers, all three bands contain dims.
TEST(Rope, MatchesLlama3Scaling) {
  RopeConfig rope = plain(128, 500000);
  rope.scaling = RopeScaling::llama3;
  rope.factor = 8;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  rope.original_max_positions = 8192;
  std::vector<double> f = inverse_frequencies(rope);
  int kept = 0, divided = 0, blended = 0;
  for (size_t i = 0; i < 64; ++i) {
    double base = frequency(rope, i);
    double wavelength = 2 * M_PI / base;
    double expected = base;
    if (wavelength > 8192.0) {
      expected = base / 8;
      ++divided;
    } else if (wavelength >= 8192.0 / 4) {
      double smooth = (8192.0 / wavelength - 1) / (4 - 1);
      expected = (1 - smooth) * base / 8 + smooth * base;
      ++blended;
    } else {
      ++kept;
    }
    EXPECT_NEAR(f[i] / expected, 1, 1e-12) << i;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(divided, 0);
  EXPECT_GT(blended, 0);
}

// Frequency of dim i as in the YaRN paper: interpolation ramps up between the dims whose
// wavelengths fit beta_fast and beta_slow times into the original positions.
double yarn_frequency(const RopeConfig& rope, size_t i, double low, double high) {
  double ramp = (static_cast<double>(i) - low) / (high - low);
  ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
  double base = frequency(rope, i);
  return base * (1 - ramp) + base / rope.factor * ramp;
}

double yarn_bound(const RopeConfig& rope, double beta) {
  // solve original / wavelength(d) = beta for d, wavelength(d) = 2π θ^(2d/r)
  double r = static_cast<double>(rope.dims);
  return r / 2 * std::log(rope.original_max_positions / (2 * M_PI * beta)) / std::log(rope.theta);
}

TEST(Rope, MatchesTruncatedYarn) {
  RopeConfig rope = plain(64, 10000);
  rope.scaling = RopeScaling::yarn;
  rope.factor = 40;
  rope.original_max_positions = 4096;
  double low = std::floor(yarn_bound(rope, 32)), high = std::ceil(yarn_bound(rope, 1));
  std::vector<double> f = inverse_frequencies(rope);
  for (size_t i = 0; i < 32; ++i)
    EXPECT_NEAR(f[i] / yarn_frequency(rope, i, low, high), 1, 1e-12) << i;
  EXPECT_NEAR(f[0], 1, 1e-15);
  EXPECT_NEAR(f[31], frequency(rope, 31) / 40, 1e-15);
}

TEST(Rope, MatchesUntruncatedYarn) {
  RopeConfig rope = plain(64, 150000);
  rope.scaling = RopeScaling::yarn;
  rope.factor = 32;
  rope.original_max_positions = 4096;
  rope.yarn.truncate = false;
  std::vector<double> f = inverse_frequencies(rope);
  double low = yarn_bound(rope, 32), high = yarn_bound(rope, 1);
  for (size_t i = 0; i < 32; ++i)
    EXPECT_NEAR(f[i] / yarn_frequency(rope, i, low, high), 1, 1e-12) << i;
}

TEST(Rope, KeepsYarnBoundsInsideTheDims) {
  RopeConfig rope = plain(8, 10000);
  rope.scaling = RopeScaling::yarn;
  rope.factor = 4;
  rope.original_max_positions = 16;  // both bounds below dim 0
  std::vector<double> f = inverse_frequencies(rope);
  EXPECT_NEAR(f[0], 1, 1e-15);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_TRUE(std::isfinite(f[i]));
    EXPECT_NEAR(f[i], frequency(rope, i) / 4, 1e-12);
  }
}

TEST(Rope, MatchesThePublishedYarnAmplitude) {
  RopeConfig rope = plain(64, 10000);
  rope.scaling = RopeScaling::yarn;
  rope.factor = 32;
  EXPECT_NEAR(rope_amplitude(rope), 1.3465735902799727, 1e-12);  // published for a factor of 32
  rope.factor = 40;
  rope.mscale = 0.707;
  rope.mscale_all_dim = 0.707;
  EXPECT_EQ(rope_amplitude(rope), 1);
  rope.mscale = 1;
  EXPECT_NEAR(rope_amplitude(rope), (0.1 * std::log(40) + 1) / (0.0707 * std::log(40) + 1), 1e-12);
  rope.attention_factor = 1.25;
  EXPECT_EQ(rope_amplitude(rope), 1.25);
  rope.attention_factor.reset();
  rope.mscale.reset();
  rope.factor = 0.5;
  EXPECT_EQ(rope_amplitude(rope), 1);
}

TEST(Rope, ScalesTheTableByTheAmplitude) {
  RopeConfig rope = plain(4, 100);
  rope.scaling = RopeScaling::yarn;
  rope.attention_factor = 2;
  rope.original_max_positions = 1000;
  RopeTable table = rope_table(rope, 3);
  ASSERT_EQ(table.width, 2);
  ASSERT_EQ(table.cos.size(), 6u);
  std::vector<double> f = inverse_frequencies(rope);
  for (size_t position = 0; position < 3; ++position)
    for (size_t i = 0; i < 2; ++i) {
      double angle = static_cast<double>(position) * f[i];
      EXPECT_FLOAT_EQ(table.cos[position * 2 + i], static_cast<float>(2 * std::cos(angle)));
      EXPECT_FLOAT_EQ(table.sin[position * 2 + i], static_cast<float>(2 * std::sin(angle)));
    }
}

TEST(Rope, SelectsLongropeFactorsByContext) {
  RopeConfig rope = plain(6, 1000);
  rope.scaling = RopeScaling::longrope;
  rope.original_max_positions = 16;
  rope.short_factors = {{1, 2, 4}, 1.5};
  rope.long_factors = {{3, 5, 7}, 0.5};
  for (int64_t context : {1, 16, 17, 64}) {
    const bool far = context > 16;
    EXPECT_EQ(has_long_factors(rope, context), far);
    EXPECT_EQ(rope_amplitude(rope, context), far ? 0.5 : 1.5);
    EXPECT_EQ(describe_factors(rope, context), far ? "long factors (a context above 16 positions)"
                                                   : "short factors (a context of at most 16 "
                                                     "positions)");
    const std::vector<double> f = inverse_frequencies(rope, context);
    const double factors[2][3] = {{1, 2, 4}, {3, 5, 7}};
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(f[i] * factors[far][i], frequency(rope, i), 1e-15);
    const RopeTable table = rope_table(rope, context);
    EXPECT_FLOAT_EQ(table.cos[0], far ? 0.5f : 1.5f) << "the table's length is the context";
  }
  EXPECT_EQ(describe_factors(plain(6, 1000), 64), "");
}

// The first pairs rotate with the frequencies of a fully rotated head; the other pairs do not
// rotate.
TEST(Rope, MatchesProportionalScaling) {
  RopeConfig rope = plain(20, 500000);
  rope.scaling = RopeScaling::proportional;
  rope.share = 0.35;
  rope.factor = 2;
  const std::vector<double> f = inverse_frequencies(rope);
  ASSERT_EQ(f.size(), 10u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(f[i], frequency(rope, i) / 2, 1e-15);
  for (size_t i = 3; i < 10; ++i) EXPECT_EQ(f[i], 0);
  EXPECT_EQ(rope_amplitude(rope), 1);
}

TEST(Rope, GrowsTheQueryScaleInSteps) {
  const QueryTemperature temperature{0.1, 8192};
  EXPECT_EQ(query_scale(temperature, 0), 1);
  EXPECT_EQ(query_scale(temperature, 8190), 1);
  EXPECT_NEAR(query_scale(temperature, 8191), 1 + 0.1 * std::log(2), 1e-15);
  EXPECT_NEAR(query_scale(temperature, 3 * 8192), 1 + 0.1 * std::log(4), 1e-15);
}

// Published values: 1.5896 of DeepSeek-V2-Lite, 1.8739 of DeepSeek-V3.
TEST(Rope, MatchesPublishedYarnScoreScales) {
  RopeConfig rope;
  rope.mscale_all_dim = 0.707;
  rope.factor = 40;
  EXPECT_EQ(rope_score_scale(rope), 1) << "not scaled";
  rope.scaling = RopeScaling::yarn;
  EXPECT_NEAR(rope_score_scale(rope), 1.5896, 1e-4);
  rope.mscale_all_dim = 1;
  EXPECT_NEAR(rope_score_scale(rope), 1.8739, 1e-4);
  rope.mscale_all_dim = 0;
  EXPECT_EQ(rope_score_scale(rope), 1);
}

}  // namespace
}  // namespace moec
