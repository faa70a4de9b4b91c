// Metrics that compare predictions, values and routing of an export with those of a reference
// export of the same checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "frontends/measure/metrics.h"

namespace moec {

// A mean over windows of equal length, with its standard error.
struct WindowMean {
  double mean = 0;
  // Standard error over window means; absent for a single window.
  std::optional<double> standard_error;
};

// Returns the mean of the window means; 0 if there are no windows.
WindowMean mean_of_windows(std::span<const double> means);

// Returns the smallest element v of `values` for which at least `fraction` (0 to 1) of the elements
// are at most v; 0 if `values` is empty.
double quantile(std::vector<double> values, double fraction);

bool all_finite(std::span<const float> values);

// Returns the natural logarithm of a token's probability. Logits must be finite.
double log_probability(std::span<const float> logits, int64_t token);

struct PredictionComparison {
  uint64_t tokens = 0;     // compared positions
  uint64_t nonfinite = 0;  // positions skipped because a logit is NaN or infinite
  WindowMean kl;           // KL(reference || compared), nats
  double kl_p99 = 0;
  WindowMean top1;  // fraction of positions with the reference's most likely token
  // -log2 of the next token's probability. Absent if no position has a next token: in models that
  // label tokens, and in windows of one token.
  struct Bits {
    uint64_t tokens = 0;
    WindowMean reference, compared, difference;  // compared - reference
  };
  std::optional<Bits> bits;
};

class PredictionComparer {
 public:
  // Adds a position. `next` is the next token; absent if the logits do not predict a token. Among
  // equal logits, the lowest index is the most likely token.
  void add(std::span<const float> reference, std::span<const float> compared,
           std::optional<int64_t> next);
  // Must be called after the last position of each window.
  void end_window();
  PredictionComparison result() const;

 private:
  struct Sums {
    uint64_t tokens = 0, same_top1 = 0, next = 0;
    double kl = 0, reference_bits = 0, compared_bits = 0;
  };

  Sums window_;
  std::vector<double> kls_, window_kl_, window_top1_, window_reference_, window_compared_;
  uint64_t nonfinite_ = 0, next_ = 0;
};

struct ValueComparison {
  Comparison all;
  std::optional<double> mean_cosine;  // mean over rows; absent if no rows were added
};

// Like Comparer, but also computes the mean of the rows' cosines.
class ValueComparer {
 public:
  void add(std::span<const float> compared, std::span<const float> reference, int64_t columns);
  ValueComparison result() const;

 private:
  Comparer all_;
  double cosines_ = 0;
  uint64_t rows_ = 0;
};

struct RoutingComparison {
  uint64_t tokens = 0;
  uint64_t flipped_sets = 0;        // tokens with other experts than in the reference
  double moved_weight = 0;          // mean over tokens of Σ_e |w_e - reference w_e| / 2
  std::vector<uint64_t> chosen_by;  // per expert: tokens that chose it in the reference

  // Experts that no token chose in the reference, so that the comparison does not cover them.
  std::vector<int64_t> never_routed() const;
};

class RoutingComparer {
 public:
  // Adds a token's routing weights, one per expert; 0 for experts that the token did not choose.
  void add(std::span<const float> compared, std::span<const float> reference);
  RoutingComparison result() const;

 private:
  RoutingComparison sum_;
};

}  // namespace moec
