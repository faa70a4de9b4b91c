#include "models/plan/residency.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

int64_t resident_capacity(const ResidentSet& set) {
  MOEC_CHECK(set.layers > 0 && set.slot_bytes > 0, "{} layers with slots of {} bytes", set.layers,
             set.slot_bytes);
  const int64_t room = std::max<int64_t>(set.budget_bytes - set.base_bytes, 0);
  return std::min(room / (set.layers * set.slot_bytes), set.experts);
}

}  // namespace moec
