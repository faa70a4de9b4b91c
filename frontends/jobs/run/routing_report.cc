#include "frontends/jobs/run/routing_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace moec {

using nlohmann::ordered_json;

std::string routing_report(const Session& session) {
  std::string text;
  if (const std::string top_k = describe_top_k(session.top_k(), session.top_k_counts());
      !top_k.empty())
    text += fmt::format("[{}]\n", top_k);
  if (const CapacityDrops* drops = session.drops())
    text +=
        fmt::format("[capacity {}: {}]\n", session.manifest().capacity->factor, drops->describe());
  return text;
}

void add_routing(const Session& session, ordered_json& json) {
  const TopKChoice& choice = session.top_k();
  if (!choice.forms.empty()) {
    ordered_json& top_k = json["top_k"];
    if (!choice.threshold) top_k["form"] = choice.forms[choice.form].name;
    if (!choice.reason.empty()) top_k["chosen_by"] = choice.reason;
    if (choice.threshold) {
      auto counts = ordered_json::array();
      for (const auto& [k, count] : session.top_k_counts())
        counts.push_back({{"top_k", k}, {"choices", count}});
      top_k["threshold"] = *choice.threshold;
      top_k["counts"] = std::move(counts);
    }
  }
  if (const CapacityDrops* drops = session.drops())
    json["capacity"] = {{"factor", session.manifest().capacity->factor},
                        {"choices", drops->choices()},
                        {"dropped", drops->dropped()},
                        {"drop_rate", drops->rate()}};
}

}  // namespace moec
