// Normal numbers that are a pure function of a seed and a position, so that the bytes of a file
// depend neither on the pieces in which it is written nor on threads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace moec {

// A seed for one purpose, such as "noise on NAME": other purposes have unrelated numbers.
uint64_t seed_for(uint64_t seed, std::string_view purpose);

// Number `index` of the sequence of a seed: normal, mean 0, standard deviation 1, by the formula of
// Box and Muller from splitmix64.
double counted_normal(uint64_t seed, uint64_t index);

// The same for positions in ascending order, at half the cost: numbers are drawn in pairs.
class CountedNormals {
 public:
  explicit CountedNormals(uint64_t seed) : seed_(seed) {}
  double at(uint64_t index);

 private:
  uint64_t seed_;
  uint64_t pair_ = 1;  // the even position of the pair that is known; 1: none
  double even_ = 0, odd_ = 0;
};

// `chosen` of the numbers 0 … count - 1, each subset as likely as another: flags by number.
std::vector<bool> counted_choice(uint64_t seed, int64_t count, int64_t chosen);

}  // namespace moec
