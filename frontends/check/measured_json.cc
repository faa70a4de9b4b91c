#include "frontends/check/measured_json.h"

#include <nlohmann/json.hpp>

#include "frontends/report/report_json.h"

namespace moec {

using nlohmann::ordered_json;

ordered_json measured_json(const PlacementComparison& comparison, const Measured& measured) {
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
  return report_json(!comparison.is_worse(), json);
}

}  // namespace moec
