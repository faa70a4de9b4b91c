// How the shards of a plan are spread over several devices, for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/plan/plan_devices.h"

namespace moec {

// A table of the devices; where experts have copies, also how evenly the load is spread.
void print_devices(const DevicePlan& plan);
// For each device its memory, what of it is used, and the names of its shards.
nlohmann::ordered_json devices_json(const DevicePlan& plan);

// For each layer, which group of experts each slot holds.
nlohmann::ordered_json replicas_json(const ReplicaPlan& plan);

}  // namespace moec
