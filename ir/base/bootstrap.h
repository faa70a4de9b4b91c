// Confidence interval of a mean over documents, computed by Efron's bootstrap from the percentiles
// of the resampled means.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace moec {

// A document's contribution to a mean: a sum and its number of terms.
struct PartialSum {
  double sum = 0, count = 0;
};

// A mean over all documents. `bounds` contain 95 % of the resampled means. They are absent for
// fewer than two documents, because all resamples are then equal.
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

// Returns Σ sum / Σ count, or 0 for no documents. Each resample draws documents.size() documents
// with replacement. Equal documents and seeds yield equal bounds on every machine.
BootstrapMean bootstrap_mean(std::span<const PartialSum> documents, uint64_t seed = 1);

}  // namespace moec
