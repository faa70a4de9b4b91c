#include "backends/runtime/session/capacity_drops.h"

#include <fmt/format.h>

#include <optional>

#include "backends/runtime/session/step_inputs.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

// Returns `label` without the suffix `ending`, which is the scope of a layer; absent if `label`
// does not have that suffix.
std::optional<std::string_view> before_ending(std::string_view label, std::string_view ending) {
  if (!label.ends_with(ending)) return std::nullopt;
  return label.substr(0, label.size() - ending.size());
}

}  // namespace

std::string CapacityDrops::describe() const {
  return fmt::format("{} of {} chosen experts dropped ({:.1f} %)", dropped_, choices_,
                     100 * rate());
}

// Routers with null slots have more channels before the capacity applies than after it. The
// experts' channels come first, so the loop compares these alone.
void CapacityDrops::take(std::string_view label, const Tensor& value, int64_t count) {
  if (const auto prefix = before_ending(label, kUncappedWeights)) {
    before_.insert_or_assign(std::string(*prefix), value);
    return;
  }
  const auto prefix = before_ending(label, kRoutingWeights);
  const auto found = prefix ? before_.find(*prefix) : before_.end();
  if (found == before_.end()) return;
  const Rows before = unpack_rows(found->second, count), after = unpack_rows(value, count);
  before_.erase(found);
  for (int64_t t = 0; t < after.count(); ++t)
    for (size_t e = 0; e < static_cast<size_t>(after.columns); ++e) {
      if (before.row(t)[e] == 0) continue;
      ++choices_;
      if (after.row(t)[e] == 0) ++dropped_;
    }
}

}  // namespace moec
