// How far the predictions, the values and the routing of one export are from those of another one
// of the same checkpoint, the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "frontends/measure/metrics.h"

namespace moec {

// A mean over windows of equal length, and how far it may be off.
struct WindowMean {
  double mean = 0;
  // The standard deviation of the windows' means by the root of their number; none of one window.
  std::optional<double> standard_error;
};

// The mean of the windows' means. Of no windows: 0.
WindowMean mean_of_windows(std::span<const double> means);

// The least of the values that at least this fraction (0 to 1) of all do not exceed. Of no values:
// 0.
double quantile(std::vector<double> values, double fraction);

bool all_finite(std::span<const float> values);

// ln of the probability of a token, of finite logits.
double log_probability(std::span<const float> logits, int64_t token);

struct PredictionComparison {
  uint64_t tokens = 0;     // positions whose predictions were compared
  uint64_t nonfinite = 0;  // positions left out because a logit of either is NaN or infinite
  WindowMean kl;           // KL(reference || compared), nats
  double kl_p99 = 0;
  WindowMean top1;  // the fraction of positions whose likeliest token is the reference's
  // -log2 of the probability of the token that follows. None where no next token is predicted:
  // models that label tokens, and windows of one token.
  struct Bits {
    uint64_t tokens = 0;
    WindowMean reference, compared, difference;  // compared - reference
  };
  std::optional<Bits> bits;
};

class PredictionComparer {
 public:
  // A position; `next` is the token that follows, where there is one that the logits predict. Of
  // equal logits the lowest is the likeliest.
  void add(std::span<const float> reference, std::span<const float> compared,
           std::optional<int64_t> next);
  // Behind the last position of each window.
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
  std::optional<double> mean_cosine;  // of the rows, where they are known
};

// Compares rows of values; as Comparer does, with the mean of the rows' cosines.
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
  uint64_t flipped_sets = 0;        // tokens whose chosen experts are not the reference's
  double moved_weight = 0;          // mean over tokens of Σ_e |w_e - reference w_e| / 2
  std::vector<uint64_t> chosen_by;  // of each expert: tokens that chose it in the reference

  // Experts that no token chose in the reference: nothing here says how good they are.
  std::vector<int64_t> never_routed() const;
};

class RoutingComparer {
 public:
  // Routing weights of a token, one of each expert, 0 for those that it did not choose.
  void add(std::span<const float> compared, std::span<const float> reference);
  RoutingComparison result() const;

 private:
  RoutingComparison sum_;
};

}  // namespace moec
