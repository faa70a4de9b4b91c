#include "frontends/cli/print/print_measured.h"

#include <fmt/format.h>

#include "frontends/cli/print/say.h"

namespace moec {
namespace {

void print_difference(const Difference& found) {
  print_out("  {} T={} {} ({}): predicted on {}{}, measured on {}{}\n", found.shard, found.tokens,
            found.op, found.kind, found.predicted,
            found.rule.empty() ? "" : " by rule " + found.rule, found.measured,
            found.message.empty() ? "" : ": " + found.message);
}

// Prints nothing if no graph ran in an emulator.
void print_emulator(const MeasuredGraph* farthest) {
  if (farthest == nullptr) return;
  print_out("lowest cosine of a shard in the emulator: {:.6f} ({} T={})\n", *farthest->cosine,
            farthest->shard, farthest->tokens);
}

}  // namespace

void print_comparison(const PlacementComparison& comparison, const Measured& measured) {
  print_out("measured by {} for {}, with {}\n", measured.engine, measured.chip, measured.tools);
  for (const MeasuredGraph* graph : comparison.refused)
    print_out("  {} T={}: refused: {}\n", graph->shard, graph->tokens, graph->error);
  for (const Difference& found : comparison.differences) print_difference(found);
  for (const auto& [rule, score] : comparison.rules)
    print_out("rule {}: confirmed by {} ops, contradicted by {}\n", rule, score.confirmed,
              score.contradicted);
  print_out(
      "{} ops run as predicted, {} differ; {} have no device, {} were replaced by other ops\n",
      comparison.agreed, comparison.differences.size(), comparison.unknown, comparison.replaced);
  print_emulator(comparison.farthest);
  print_out("confirmed by {} for {}: {} of {} ops\n", measured.engine, measured.chip,
            comparison.confirmed, comparison.ops);
  // Differences alone are no shortfall: an op may run on a better unit than predicted.
  print_out("{}\n", comparison.is_worse() ? "FELL SHORT" : "PASSED");
}

}  // namespace moec
