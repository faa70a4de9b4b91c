// Plans as JSON (ir/base/report_json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "frontends/jobs/plan/plan_source.h"

namespace moec {

// Shards, cuts, the cost of a token, memory and devices. Not "ok" where a shard exceeds its budget.
nlohmann::ordered_json plan_json(const PlannedSource& planned);

// The models that can be planned by name.
nlohmann::ordered_json published_json(const std::vector<PublishedSize>& models);

}  // namespace moec
