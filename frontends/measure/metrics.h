// Metrics that compare computed values with golden values. Sums are accumulated in double over any
// number of rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct Comparison {
  uint64_t elements = 0;
  double cosine = 1;       // x·y / (|x| |y|); 1 if both are zero, 0 if only one is
  double relative_l2 = 0;  // |x - y| / |y|
  double worst_row = 0;    // largest relative L2 of a row; skips rows that are zero in y
  double sqnr_db = 0;      // 20 log10(|y| / |x - y|); infinite if equal
  double max_abs = 0;      // largest |x_i - y_i|
  uint64_t max_index = 0;  // index of max_abs over all added rows
  uint64_t nonfinite = 0;  // NaN or infinite elements of x
  double headroom = 0;     // max |x_i| / 65504; at most 1 if the tensor fits f16
};

// Compares computed values x with golden values y. Values of x that are NaN or infinite are counted
// and excluded from the sums.
class Comparer {
 public:
  // Adds one row.
  void add(std::span<const float> x, std::span<const float> y);
  // Adds rows of `width` elements each.
  void add_rows(std::span<const float> x, std::span<const float> y, int64_t width);
  Comparison result() const;

 private:
  uint64_t elements_ = 0, nonfinite_ = 0, max_index_ = 0;
  double xy_ = 0, xx_ = 0, yy_ = 0, difference_ = 0, max_abs_ = 0, max_x_ = 0, worst_row_ = 0;
};

// Agreement of a router with its golden, over tokens.
struct RouterComparison {
  uint64_t tokens = 0;
  uint64_t same_set = 0;      // tokens that choose exactly the golden's experts
  double moved_weight = 0;    // mean over tokens of Σ_e |w_e - golden w_e| / 2
  double min_margin = 0;      // smallest golden gap between the k-th and the next score
  uint64_t close_tokens = 0;  // tokens with a golden gap below twice their largest logit error
};

class RouterComparer {
 public:
  // Adds one token. `weights` and `golden_weights`: computed and golden routing weights, E each.
  // `chosen_golden`: chosen experts; indices from E on are null slots. `golden_choice`: golden
  // selection scores (logits or biased scores); E, or more if the router has null slots.
  // `logit_error`: largest logit error of the token, 0 if unknown.
  void add(std::span<const float> weights, std::span<const float> golden_weights,
           std::span<const int32_t> chosen_golden, std::span<const float> golden_choice,
           double logit_error);
  RouterComparison result() const;

 private:
  RouterComparison sum_;
};

// Returns log Σ exp(logits). A log probability is the logit minus this value.
double log_sum_exp(std::span<const float> logits);
// Returns KL(softmax(golden) || softmax(logits)) in nats, clamped to at least 0; NaN if a logit is
// NaN or a sum overflows.
double kl_divergence(std::span<const float> logits, std::span<const float> golden);

// Agreement of next-token distributions.
struct LogitComparison {
  uint64_t tokens = 0;
  uint64_t same_top1 = 0;
  double mean_kl = 0;  // mean over tokens of KL(golden || computed), nats
};

class LogitComparer {
 public:
  void add(std::span<const float> logits, std::span<const float> golden);
  LogitComparison result() const;

 private:
  LogitComparison sum_;
};

// KL divergence of two distributions over a vocabulary, computed from slices of the logits.

class LogitDivergence {
 public:
  // Adds the next slice of both distributions. The sizes must be equal.
  void add(std::span<const float> reference, std::span<const float> other);
  // Returns KL(reference || other) in nats, clamped to at least 0; NaN if a logit is NaN or a sum
  // overflows.
  double kl() const;

 private:
  // `sum`: Σ e^(x − largest). `cross`, for the reference only: Σ e^(x − largest)·(x − y).
  struct Sum {
    double largest = 0, sum = 0, cross = 0;
    void rescale(double next);
  };
  Sum reference_, other_;
  bool begun_ = false;
};

}  // namespace moec
