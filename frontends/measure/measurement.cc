#include "frontends/measure/measurement.h"

#include <fmt/format.h>

namespace moec {

Status check_not_stopped(const AnalyzeOptions& options) {
  if (!options.stop || !options.stop()) return {};
  // No partial result is kept, so that a profile always describes the whole text.
  return fail(kAnalyzeInterrupted, "the analysis was stopped",
              "run the same command again; it starts over", {.file = options.folder});
}

Status check_has_experts(int64_t layers, const std::string& source) {
  if (layers > 0) return {};
  return fail("analyze.no_experts", "the model has no experts to analyze",
              "use a Mixture-of-Experts model", {.file = source});
}

bool counts_pairs(int64_t layers, int64_t experts, Diagnostics& notes) {
  // `together` has a number per pair and layer. The limit bounds the size of a profile.
  if (layers * count_pairs(experts) <= kMaxPairs) return true;
  notes.push_back(
      {Severity::note,
       "analyze.no_pairs",
       fmt::format("{} layers of {} experts have too many pairs for a profile", layers, experts),
       "use the profile without the field \"together\"",
       {}});
  return false;
}

}  // namespace moec
