#include "backends/residency/first_steps.h"

#include <algorithm>

namespace moec {
namespace {

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

double FirstStepCounts::hit_rate() const { return share(hits, uses); }
double FirstStepCounts::cold_hit_rate() const { return share(cold_hits, uses); }

FirstSteps::FirstSteps(PolicyKind kind, int64_t slots, std::span<const ExpertId> pinned)
    : cold_(kind, {.slots = slots}, pinned) {}

// The cold cache may have fewer slots than the step has experts; it then uses the experts one at a
// time.
void FirstSteps::note(const ChosenStep& step) {
  int64_t& tokens = tokens_[step.layer];
  if (tokens >= kFirstTokens) return;
  tokens += step.tokens;
  counts_.tokens = std::max(counts_.tokens, tokens);
  counts_.uses += std::ssize(step.chosen);
  counts_.hits += step.hits;
  std::vector<int64_t> experts;
  for (const ChosenExpert& chosen : step.chosen) {
    counts_.cold_hits += cold_.resident({step.layer, chosen.expert}) ? 1 : 0;
    experts.push_back(chosen.expert);
  }
  // The layer's number of tokens serves as the step number. It never decreases within a layer, and
  // each layer has a separate policy.
  if (cold_.use(tokens, step.layer, experts)) return;
  for (const int64_t expert : experts) (void)cold_.use(tokens, step.layer, std::span(&expert, 1));
}

}  // namespace moec
