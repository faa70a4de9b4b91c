// How far computed values are from golden ones. All sums are in double and run over any number of
// rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct Comparison {
  uint64_t elements = 0;
  double cosine = 1;       // x·y / (|x| |y|); 1 when both are zero, 0 when one is
  double relative_l2 = 0;  // |x - y| / |y|
  double worst_row = 0;    // largest relative L2 of one row; rows that are zero in y are left out
  double sqnr_db = 0;      // 20 log10(|y| / |x - y|); infinite when equal
  double max_abs = 0;      // largest |x_i - y_i| …
  uint64_t max_index = 0;  // … and where, counted over all rows added
  uint64_t nonfinite = 0;  // NaN or infinite elements of x
  double headroom = 0;     // max |x_i| / 65504: below 1 the tensor fits f16
};

// x is what was computed, y the golden. An x that is NaN or infinite is counted and left out of the
// sums.
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
  uint64_t same_set = 0;      // tokens whose chosen experts are exactly the golden's
  double moved_weight = 0;    // mean over tokens of Σ_e |w_e - golden w_e| / 2
  double min_margin = 0;      // smallest golden gap between the k-th and the next choice
  uint64_t close_tokens = 0;  // tokens whose golden gap is below the largest logit error seen there
};

class RouterComparer {
 public:
  // Adds one token: its routing weights as computed and as golden (E each); the golden values that
  // experts are chosen by (logits or biased scores, E of them, or more if the router has null
  // slots); and its largest logit error (0 where logits are not known). `chosen_golden` are indices
  // of experts; those from E on are null slots.
  void add(std::span<const float> weights, std::span<const float> golden_weights,
           std::span<const int32_t> chosen_golden, std::span<const float> golden_choice,
           double logit_error);
  RouterComparison result() const;

 private:
  RouterComparison sum_;
};

// The natural logarithm of the sum of the exponentials; the logarithm of a probability is its logit
// less this.
double log_sum_exp(std::span<const float> logits);
// KL(softmax(golden) || softmax(logits)) in nats, not below 0. NaN where a logit is NaN or a sum is
// infinite.
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

// The divergence of two distributions over a vocabulary whose logits arrive in slices.

class LogitDivergence {
 public:
  // The next logits of both, as many of each.
  void add(std::span<const float> reference, std::span<const float> other);
  // KL(reference || other) in nats, not below 0; NaN where a logit is NaN or a sum infinite.
  double kl() const;

 private:
  // Σ e^(x − largest), and for the reference Σ e^(x − largest)·(x − y) besides.
  struct Sum {
    double largest = 0, sum = 0, cross = 0;
    void rescale(double next);
  };
  Sum reference_, other_;
  bool begun_ = false;
};

}  // namespace moec
