// Role and digests of a weight, recorded when it was written: see manifest.fbs, WeightRecord.
#pragma once

#include <string>

#include "ir/analysis/find_experts.h"

namespace moec {

struct WeightRecord {
  std::string name;
  WeightRole role = WeightRole::plain;
  int64_t moe_layer = 0;
  int64_t first_expert = 0;
  std::string digests;
  bool operator==(const WeightRecord&) const = default;
};

}  // namespace moec
