// Which units of weights (weight_pager.h) the experts of an export are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "backends/runtime/experts/expert_places.h"

namespace moec {

// What an expert has in one file.
struct ExpertUnit {
  size_t expert = 0, file = 0;  // indices into ExpertPlaces
};

class ExpertUnits {
 public:
  // The units of the next expert of ExpertPlaces.
  void add(const PlacedExpert& expert);

  // The unit that has these bytes of a file; nothing if no expert has them.
  std::optional<size_t> find(size_t file, uint64_t offset, uint64_t bytes) const;
  const ExpertUnit& operator[](size_t unit) const { return units_[unit]; }

 private:
  size_t experts_ = 0;
  std::vector<ExpertUnit> units_;
  // By file and first byte: the end of the stretch, and its unit.
  std::map<std::pair<size_t, uint64_t>, std::pair<uint64_t, size_t>> stretches_;
};

}  // namespace moec
