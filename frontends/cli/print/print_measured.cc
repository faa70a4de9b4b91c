#include "frontends/cli/print/print_measured.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"

namespace moec {

using nlohmann::ordered_json;

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

void print_comparison_json(const PlacementComparison& comparison, const Measured& measured) {
  auto differences = ordered_json::array();
  for (const Difference& found : comparison.differences)
    differences.push_back({{"shard", found.shard},
                           {"tokens", found.tokens},
                           {"op", found.op},
                           {"kind", found.kind},
                           {"predicted", found.predicted},
                           {"rule", found.rule},
                           {"measured", found.measured}});
  auto rules = ordered_json::object();
  for (const auto& [rule, score] : comparison.rules)
    rules[rule] = {{"confirmed", score.confirmed}, {"contradicted", score.contradicted}};
  const ordered_json json = {
      {"machine",
       {{"chip", measured.chip}, {"macos", measured.macos}, {"coremltools", measured.coremltools}}},
      {"agreed", comparison.agreed},
      {"unknown", comparison.unknown},
      {"differences", differences},
      {"rules", rules}};
  print_json(!comparison.is_worse(), json);
}

}  // namespace moec
