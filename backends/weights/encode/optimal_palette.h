// Palettes with the least squared error: one-dimensional k-means, solved exactly.
#pragma once

#include <vector>

namespace moec {

// Distinct finite values in ascending order, each with a positive weight: its number of
// occurrences, or the weight of its error.
struct Histogram {
  std::vector<double> values, weights;
};

// Returns `entries` values in ascending order that minimise the sum of weight × (value − nearest
// entry)². If there are fewer distinct values than entries, returns those values and repeats the
// largest one. The histogram must not be empty, and `entries` must be positive.
std::vector<double> optimal_palette(const Histogram& histogram, int entries);

// Returns the sum of weight × (value − nearest entry)². The entries must be ascending.
double palette_error(const Histogram& histogram, const std::vector<double>& entries);

}  // namespace moec
