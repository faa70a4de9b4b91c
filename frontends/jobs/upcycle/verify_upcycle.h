// Runs a dense model and what became of it side by side in the reference executor, in f32, on the
// same tokens, and compares their logits.
#pragma once

#include <cstdint>
#include <string>

#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct UpcycleComparison {
  int64_t tokens = 0;
  // The largest difference of two logits of a token, relative to the token's largest logit in the
  // dense model; of all tokens the largest.
  double max_error = 0;
  double mean_kl = 0;  // KL(dense || new) of a token, in nats
  double top1 = 0;     // share of the tokens with the same likeliest next token
  // Of all choices of all MoE layers: how many took each group of equal router rows as a
  // whole or not at all.
  int64_t choices = 0, whole = 0;

  bool within(double error) const { return max_error <= error; }
  double whole_rate() const {
    return choices == 0 ? 1 : static_cast<double>(whole) / static_cast<double>(choices);
  }
};

// `folder` holds the new checkpoint of the plan. Errors: those of open_source(), read_windows() (as
// upcycle.…), plan_model() and Executor; upcycle.nonfinite, kUpcycleInterrupted.
Result<UpcycleComparison> verify_upcycle(const UpcycleOptions& options, const UpcyclePlan& plan,
                                         const std::string& folder);

}  // namespace moec
