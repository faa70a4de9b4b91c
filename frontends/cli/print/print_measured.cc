#include "frontends/cli/print/print_measured.h"

#include "frontends/cli/print/say.h"

namespace moec {

void print_comparison(const PlacementComparison& comparison, const Measured& measured) {
  print_out("measured on {}, macOS {}, coremltools {}\n", measured.chip, measured.macos,
            measured.coremltools);
  for (const Difference& found : comparison.differences)
    print_out("  {} T={} {} ({}): predicted on {}{}, measured on {}\n", found.shard, found.tokens,
              found.op, found.kind, found.predicted,
              found.rule.empty() ? "" : " by rule " + found.rule, found.measured);
  for (const auto& [rule, score] : comparison.rules)
    print_out("rule {}: confirmed by {} ops, contradicted by {}\n", rule, score.confirmed,
              score.contradicted);
  print_out("{} ops run as predicted, {} differ; for {} Core ML names no device\n",
            comparison.agreed, comparison.differences.size(), comparison.unknown);
  print_out("{}\n", comparison.is_worse() ? "FELL SHORT" : "PASSED");
}

}  // namespace moec
