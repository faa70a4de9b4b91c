#include "frontends/jobs/compare/compare_report.h"

#include <fmt/format.h>

namespace moec {

static void miss(const std::string& code, std::string cause, std::string next,
                 CompareReport& report) {
  report.findings.push_back({Severity::error, code, std::move(cause), std::move(next), {}});
}

void judge(const CompareLimits& limits, CompareReport& report) {
  const PredictionComparison& found = report.predictions;
  const char* next =
      "raise the bits of the largest matrices, or calibrate (moec export --help, --weights)";
  // The means exclude nonfinite positions, so these need a separate finding.
  if (found.nonfinite > 0)
    miss("compare.nonfinite",
         fmt::format("{} of {} positions have logits that are NaN or infinite", found.nonfinite,
                     found.nonfinite + found.tokens),
         "run moec check and moec validate to find the shard", report);
  if (limits.max_kl && found.kl.mean > *limits.max_kl)
    miss("compare.threshold",
         fmt::format("the mean KL is {:.6f} nats, more than {}", found.kl.mean, *limits.max_kl),
         next, report);
  if (limits.min_top1 && found.top1.mean < *limits.min_top1)
    miss("compare.threshold",
         fmt::format("the most likely token agrees at {:.2f} % of the positions, less than {} %",
                     100 * found.top1.mean, 100 * *limits.min_top1),
         next, report);
  report.passed = !has_error(report.findings);
}

}  // namespace moec
