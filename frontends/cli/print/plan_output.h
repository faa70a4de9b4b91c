// What `moec plan` prints, for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "models/plan/cut_shards.h"
#include "models/plan/plan_report.h"
#include "models/plan/residency.h"

namespace moec {

struct PlanOutput {
  std::string name;  // the SOURCE that the user gave
  std::string target;
  const Plan& plan;
  const std::vector<ShardCut>& cuts;
  const PlanReport& report;
  const std::optional<ResidentSet>& resident;
};

void print_plan(const PlanOutput& output);
nlohmann::ordered_json plan_json(const PlanOutput& output);

// How far the model is cut, and why.
nlohmann::ordered_json cuts_json(const std::vector<ShardCut>& cuts);

}  // namespace moec
