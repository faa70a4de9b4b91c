#include "backends/residency/changes_json.h"

#include <nlohmann/json.hpp>

namespace moec {

nlohmann::ordered_json changes_json(const std::vector<DomainChange>& changes) {
  auto json = nlohmann::ordered_json::array();
  for (const DomainChange& change : changes)
    json.push_back(
        {{"token", change.token}, {"hit_rate_before", change.before}, {"hit_rate", change.within}});
  return json;
}

}  // namespace moec
