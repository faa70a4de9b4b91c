// A device profile with round numbers, for tests of forecasts.
#pragma once

#include <algorithm>

#include "ir/target/device_profile.h"

namespace moec {

// A product takes 1 ns per weight and token as f32, and half as long as int8. An op takes 1 µs, a
// skipped one 0.01 µs, a run 10 µs, and an element 1 ns. Reads of any size have 1 GB/s.
inline DeviceProfile made_up_profile() {
  const auto times = [](double seconds) {
    return *ProductTimes::of({{1000, 1, 1000 * seconds}, {1000, 2, 2000 * seconds}});
  };
  DeviceProfile profile;
  profile.engine = "cpu";
  profile.vectors = "AVX2";
  profile.threads = 2;
  profile.memory_bytes = 8'000'000'000;
  profile.memory_rate = 1e12;
  profile.forms = {{FloatForm{}, DType::f32, times(1e-9)},
                   {FloatForm{}, DType::f16, times(1e-9)},
                   {AffineForm{.bits = 8}, DType::f32, times(0.5e-9)}};
  profile.activations = times(2e-9);
  profile.element_seconds.fill(1e-9);
  profile.op_seconds = 1e-6;
  profile.idle_op_seconds = 1e-8;
  profile.run_seconds = 1e-5;
  profile.sequential_rate = 1e9;
  profile.reads = {{1 << 16, 1e9}, {1 << 20, 1e9}};
  return profile;
}

}  // namespace moec
