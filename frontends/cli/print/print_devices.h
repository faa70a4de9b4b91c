// How the shards of a plan are spread over several devices, for people.
#pragma once

#include "models/cluster/plan_devices.h"

namespace moec {

// A table of the devices; where experts have copies, also how evenly the load is spread.
void print_devices(const DevicePlan& plan);

}  // namespace moec
