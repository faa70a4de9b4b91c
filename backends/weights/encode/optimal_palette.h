// Palettes with the least squared error: k-means in one dimension, solved exactly.
#pragma once

#include <vector>

namespace moec {

// Distinct finite values in rising order, and the weight of each: how often it occurs, or how much
// its error counts. Weights are positive.
struct Histogram {
  std::vector<double> values, weights;
};

// The `entries` values, in rising order, for which the sum of weight × (value − nearest entry)² is
// least. With fewer distinct values than entries, the entries are those values and repetitions of
// the largest one. The histogram is not empty and `entries` is positive.
std::vector<double> optimal_palette(const Histogram& histogram, int entries);

// The sum of weight × (value − nearest entry)². The entries are in rising order.
double palette_error(const Histogram& histogram, const std::vector<double>& entries);

}  // namespace moec
