// The divergence of two distributions over a vocabulary whose logits arrive in slices.
#pragma once

#include <span>

namespace moec {

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
