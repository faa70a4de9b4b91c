#pragma once

namespace moec {

// Rounds to the nearest integer, ties to even, for |x| < 2^22. Unlike std::nearbyint, this is
// vectorised by compilers for every x86-64 CPU.
inline float round_even(float x) {
  constexpr float kShift = 0x1.8p23f;
  return (x + kShift) - kShift;
}

}  // namespace moec
