#include "backends/runtime/experts/expert_units.h"

namespace moec {

void ExpertUnits::add(const PlacedExpert& expert) {
  for (const ByteExtent& stretch : expert.stretches) {
    if (units_.empty() || units_.back().expert != experts_ || units_.back().file != stretch.file)
      units_.push_back({experts_, stretch.file});
    stretches_[{stretch.file, stretch.begin}] = {stretch.end, units_.size() - 1};
  }
  ++experts_;
}

std::optional<size_t> ExpertUnits::find(size_t file, uint64_t offset, uint64_t bytes) const {
  auto after = stretches_.upper_bound({file, offset});
  if (after == stretches_.begin()) return std::nullopt;
  const auto& [place, stretch] = *--after;
  const auto& [end, unit] = stretch;
  const bool inside = place.first == file && offset < end && bytes <= end - offset;
  return inside ? std::optional(unit) : std::nullopt;
}

}  // namespace moec
