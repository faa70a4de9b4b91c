#include "backends/weights/encode/optimal_palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace moec {
namespace {

Histogram histogram_of(const std::vector<double>& samples) {
  std::map<double, double> counts;
  for (double sample : samples) ++counts[sample];
  Histogram histogram;
  for (const auto& [value, count] : counts) {
    histogram.values.push_back(value);
    histogram.weights.push_back(count);
  }
  return histogram;
}

// Samples of several shapes: normal, long-tailed, a lattice of repeated values, and distant
// clusters.
std::vector<double> samples(std::mt19937& random, size_t count, int shape) {
  std::normal_distribution<double> normal;
  std::vector<double> drawn;
  for (size_t i = 0; i < count; ++i) {
    const double bell = normal(random);
    if (shape == 0) drawn.push_back(bell);
    if (shape == 1) drawn.push_back(std::exp(3 * bell));
    if (shape == 2) drawn.push_back(static_cast<double>(random() % 1000) / 7);
    if (shape == 3) drawn.push_back(bell + 100.0 * (random() % 3));
  }
  return drawn;
}

// Minimum error over all divisions, by dynamic programming over the last cut.
double least_error(const Histogram& histogram, size_t clusters) {
  const size_t size = histogram.values.size();
  std::vector<double> mass{0}, moment{0}, square{0};
  for (size_t i = 0; i < size; ++i) {
    const double weight = histogram.weights[i], value = histogram.values[i];
    mass.push_back(mass.back() + weight);
    moment.push_back(moment.back() + weight * value);
    square.push_back(square.back() + weight * value * value);
  }
  std::vector<double> least(size + 1, std::numeric_limits<double>::infinity());
  least[0] = 0;
  for (size_t j = 0; j < clusters; ++j) {
    std::vector<double> next = least;
    for (size_t end = 1; end <= size; ++end)
      for (size_t begin = 0; begin < end; ++begin) {
        const double sum = moment[end] - moment[begin];
        const double error = square[end] - square[begin] - sum * sum / (mass[end] - mass[begin]);
        next[end] = std::min(next[end], least[begin] + error);
      }
    least = std::move(next);
  }
  return least[size];
}

// Lloyd's iteration from random values until convergence.
std::vector<double> k_means(const Histogram& histogram, size_t clusters, std::mt19937& random) {
  std::vector<double> entries;
  std::sample(histogram.values.begin(), histogram.values.end(), std::back_inserter(entries),
              clusters, random);
  for (int round = 0; round < 30; ++round) {
    std::vector<double> mass(entries.size(), 0), sum(entries.size(), 0);
    for (size_t i = 0; i < histogram.values.size(); ++i) {
      size_t nearest = 0;
      for (size_t j = 1; j < entries.size(); ++j)
        if (std::abs(histogram.values[i] - entries[j]) <
            std::abs(histogram.values[i] - entries[nearest]))
          nearest = j;
      mass[nearest] += histogram.weights[i];
      sum[nearest] += histogram.weights[i] * histogram.values[i];
    }
    const std::vector<double> last = entries;
    for (size_t j = 0; j < entries.size(); ++j)
      if (mass[j] > 0) entries[j] = sum[j] / mass[j];
    if (entries == last) break;
  }
  return entries;
}

TEST(OptimalPalette, MinimizesTheErrorOverAllDivisions) {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    const size_t count = round % 2 == 0 ? 1 + random() % 60 : 520 + random() % 40;
    const Histogram histogram = histogram_of(samples(random, count, round % 4));
    for (int entries : {1, 2, 5, 16}) {
      const double error = palette_error(histogram, optimal_palette(histogram, entries));
      const double least = least_error(histogram, static_cast<size_t>(entries));
      const double variance = least_error(histogram, 1);
      ASSERT_NEAR(error, least, 1e-12 * variance) << entries << " entries, round " << round;
    }
  }
}

TEST(OptimalPalette, BeatsKMeansFromAnyStart) {
  std::mt19937 random(2);
  for (int round = 0; round < 10000; ++round) {
    const Histogram histogram = histogram_of(samples(random, 1 + random() % 40, round % 4));
    const auto entries = 1 + static_cast<int>(random() % 8);
    const auto started = k_means(histogram, static_cast<size_t>(entries), random);
    const double error = palette_error(histogram, optimal_palette(histogram, entries));
    ASSERT_LE(error, palette_error(histogram, started) * (1 + 1e-9) + 1e-18) << "round " << round;
  }
}

TEST(OptimalPalette, StaysOptimalForManyValues) {
  std::mt19937 random(3);
  for (int shape = 0; shape < 4; ++shape) {
    const Histogram histogram = histogram_of(samples(random, 1500, shape));
    const double error = palette_error(histogram, optimal_palette(histogram, 16));
    EXPECT_NEAR(error, least_error(histogram, 16), 1e-12 * least_error(histogram, 1))
        << "shape " << shape;
  }
}

TEST(OptimalPalette, RepresentsFewValuesExactly) {
  EXPECT_EQ(optimal_palette({{-1, 2}, {3, 4}}, 4), (std::vector<double>{-1, 2, 2, 2}));
  EXPECT_EQ(optimal_palette({{5}, {1}}, 2), (std::vector<double>{5, 5}));
}

TEST(OptimalPalette, PullsEntriesTowardHeavyValues) {
  const Histogram histogram{{0, 1, 10}, {1, 3, 1}};
  EXPECT_EQ(optimal_palette(histogram, 2), (std::vector<double>{0.75, 10}));
}

TEST(OptimalPalette, KeepsPrecisionAtAFarOffset) {
  Histogram near = histogram_of([] {
    std::mt19937 random(4);
    return samples(random, 700, 0);
  }());
  Histogram far = near;
  for (double& value : far.values) value += 1e6;
  const auto entries = optimal_palette(near, 16), moved = optimal_palette(far, 16);
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_NEAR(moved[i] - 1e6, entries[i], 1e-6);
}

}  // namespace
}  // namespace moec
