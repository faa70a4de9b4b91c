// Weights that are not read when a shard is loaded: their bytes come and go between and during
// runs, unit by unit. A unit is all that an expert has in one file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/weights/views/held_bytes.h"
#include "ir/base/diagnostics.h"

namespace moec {

class WeightPager {
 public:
  virtual ~WeightPager() = default;

  // The unit that has these bytes of the file; nothing if they are not paged.
  virtual std::optional<size_t> unit_of(const std::string& path, uint64_t offset,
                                        uint64_t bytes) const = 0;
  // The bytes of the unit, which stay until release(). Waits until they are there. Null: the unit
  // takes no part in this run. Errors: those of reading the file.
  virtual Result<const HeldBytes*> acquire(size_t unit) = 0;
  // The run needs the unit no more.
  virtual void release(size_t unit) = 0;
};

}  // namespace moec
