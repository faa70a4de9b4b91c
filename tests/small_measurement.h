// A measurement of moec doctor that takes less than a second, for tests.
#pragma once

#include <string>

#include "backends/device/measure_device.h"

namespace moec {

inline ProductGrid small_products() { return {.shapes = {{16, 128}, {32, 256}}, .tokens = {1, 4}}; }

// Measures each speed three times.
inline MeasureOptions small_measurement(const std::string& folder) {
  return {.folder = folder,
          .threads = 1,
          .seconds = 0,
          .bytes = uint64_t{1} << 20,
          .products = small_products(),
          .stop = {}};
}

}  // namespace moec
