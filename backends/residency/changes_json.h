// JSON of changes of domain.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "backends/residency/hit_window.h"

namespace moec {

// An array of {"token", "hit_rate_before", "hit_rate"}.
nlohmann::ordered_json changes_json(const std::vector<DomainChange>& changes);

}  // namespace moec
