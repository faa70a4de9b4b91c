// Normal random numbers as a pure function of seed and position. As a result, the bytes of a file
// do not depend on the order or size of the written pieces, or on the number of threads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace moec {

// Derives the seed for one purpose, such as "noise on NAME"; sequences of different purposes are
// unrelated.
uint64_t seed_for(uint64_t seed, std::string_view purpose);

// Returns element `index` of the seed's sequence of standard normal numbers (Box-Muller transform
// of splitmix64).
double counted_normal(uint64_t seed, uint64_t index);

// Returns the same numbers as counted_normal(). Ascending positions cost half as much, because the
// transform yields numbers in pairs.
class CountedNormals {
 public:
  explicit CountedNormals(uint64_t seed) : seed_(seed) {}
  double at(uint64_t index);

 private:
  uint64_t seed_;
  uint64_t pair_ = 1;  // even position of the cached pair; 1: none cached
  double even_ = 0, odd_ = 0;
};

// Draws a uniformly random subset of `chosen` of the numbers 0 … count - 1. Returns a flag per
// number.
std::vector<bool> counted_choice(uint64_t seed, int64_t count, int64_t chosen);

}  // namespace moec
