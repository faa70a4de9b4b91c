// What is derived of the counts of one layer: how uneven they are, and how much of the work the
// best experts do.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "frontends/measure/layer_counter.h"

namespace moec {

// Shares of the experts of a layer in the selections of a category. The bounds are of 95 % of
// resamples of its documents; empty where it has fewer than two.
struct CategoryShares {
  std::vector<double> share, low, high;  // by expert
};

// Curves have a value for each number C of experts, from 1 on: the part of the layer's selections
// that C experts take. They are empty where the source tells no order of tokens.
struct LayerStatistics {
  double entropy_bits = 0;             // of the shares of selections; at most log2(experts)
  double gini = 0;                     // 0: all alike; near 1: one expert takes all
  std::vector<int64_t> order;          // by mass, or by selections; the hottest first
  std::vector<double> capture_mass;    // of the mass instead; experts chosen on the same text
  std::vector<double> capture;         // experts chosen on the same text
  std::vector<double> held_out;        // chosen on one half, measured on the other; both ways
  std::vector<double> latest;          // the C latest used experts: a cache of the layer
  std::vector<CategoryShares> shares;  // by category
};

// The experts in falling order of `values`; of equal ones the lower number first.
template <class T>
std::vector<int64_t> falling_order(const std::vector<T>& values);

double entropy_bits(std::span<const int64_t> counts);
double gini(std::vector<int64_t> counts);

// Resamples of the documents of each category, the same for each layer and each run.
class DocumentResamples {
 public:
  explicit DocumentResamples(const AnalysisText& text);
  CategoryShares shares(const LayerMeasurement& layer, size_t category) const;

 private:
  static constexpr size_t kResamples = 400;

  std::vector<std::vector<size_t>> documents_;  // by category
  std::vector<std::vector<size_t>> drawn_;      // by category: kResamples times as many
};

// Of a layer that was run.
LayerStatistics layer_statistics(const LayerMeasurement& layer, const DocumentResamples& resamples);
// Of a profile alone: without held_out, latest and shares.
LayerStatistics layer_statistics(const LayerProfile& layer);

}  // namespace moec
