// How far a figure may be off because other documents could have been drawn: percentiles of the
// figure on resamples of them (Efron's bootstrap).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace moec {

// A document's part of a mean: a sum, and how many were added up.
struct PartialSum {
  double sum = 0, count = 0;
};

// A mean over all documents. The bounds are those of 95 % of the resamples; none of fewer than two
// documents, which cannot be drawn in another way.
struct BootstrapMean {
  struct Bounds {
    double low = 0, high = 0;
    bool operator==(const Bounds&) const = default;
  };
  double mean = 0;
  std::optional<Bounds> bounds;
  bool operator==(const BootstrapMean&) const = default;
};

inline constexpr int kBootstrapResamples = 2000;

// Sum of the sums by the sum of the counts; of nothing: 0. Documents are drawn with replacement, as
// many as there are. The same parts have the same bounds on every machine.
BootstrapMean bootstrap_mean(std::span<const PartialSum> documents, uint64_t seed = 1);

}  // namespace moec
