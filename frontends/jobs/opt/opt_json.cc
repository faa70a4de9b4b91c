#include "frontends/jobs/opt/opt_json.h"

#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"
#include "ir/text/text.h"

namespace moec {

using nlohmann::ordered_json;

ordered_json optimised_json(const Optimised& optimised) {
  const auto& [result, notes] = optimised;
  auto passes = ordered_json::array();
  for (const PassReport& report : result.passes)
    passes.push_back({{"pass", report.pass},
                      {"seconds", report.seconds},
                      {"ops_before", report.ops_before},
                      {"ops_after", report.ops_after},
                      {"changed", report.changed}});
  return report_json(
      true, {{"shard", result.shard.name}, {"passes", passes}, {"ir", print(result.shard)}}, notes);
}

ordered_json passes_json() {
  auto list = ordered_json::array();
  for (const Pass& pass : all_passes())
    list.push_back({{"name", pass.name},
                    {"from", form_name(pass.from)},
                    {"to", form_name(pass.to)},
                    {"summary", pass.summary}});
  return report_json(true, {{"passes", list}});
}

}  // namespace moec
