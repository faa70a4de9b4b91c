#include "frontends/jobs/check/measured_json.h"

#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"

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
                           {"measured", found.measured},
                           {"message", found.message}});
  auto rules = ordered_json::object();
  for (const auto& [rule, score] : comparison.rules)
    rules[rule] = {{"confirmed", score.confirmed}, {"contradicted", score.contradicted}};
  auto refused = ordered_json::array();
  for (const MeasuredGraph* graph : comparison.refused)
    refused.push_back(
        {{"shard", graph->shard}, {"tokens", graph->tokens}, {"error", graph->error}});
  ordered_json json = {
      {"machine",
       {{"chip", measured.chip}, {"engine", measured.engine}, {"tools", measured.tools}}},
      {"ops", comparison.ops},
      {"confirmed", comparison.confirmed},
      {"agreed", comparison.agreed},
      {"unknown", comparison.unknown},
      {"replaced", comparison.replaced},
      {"refused", refused},
      {"differences", differences},
      {"rules", rules}};
  if (comparison.farthest != nullptr) json["least_cosine"] = *comparison.farthest->cosine;
  return report_json(!comparison.is_worse(), json);
}

}  // namespace moec
