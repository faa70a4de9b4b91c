#include "frontends/checkpoint/counted_normal.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ir/base/splitmix64.h"

namespace moec {
namespace {

uint64_t counted_bits(uint64_t seed, uint64_t index) {
  // Hashes the seed first, so that neighbouring seeds have unrelated sequences.
  return splitmix64(splitmix64(seed) ^ (index * 0xd1342543de82ef95));
}

// Returns a uniform number in (0, 1] with 53 random bits. 0 is excluded, because its logarithm is
// infinite.
double counted_uniform(uint64_t seed, uint64_t index) {
  // Uses the upper 53 bits, which a double represents exactly.
  return (static_cast<double>(counted_bits(seed, index) >> 11) + 1) * 0x1p-53;
}

}  // namespace

uint64_t seed_for(uint64_t seed, std::string_view purpose) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : purpose) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  // Hashes the seed before mixing in the purpose, so that similar seeds stay unrelated.
  return splitmix64(splitmix64(seed) ^ hash);
}

double counted_normal(uint64_t seed, uint64_t index) { return CountedNormals(seed).at(index); }

double CountedNormals::at(uint64_t index) {
  // The Box-Muller transform yields two numbers from two uniform ones. Each pair starts at an even
  // index.
  const uint64_t pair = index & ~uint64_t{1};
  if (pair != pair_) {
    const double radius = std::sqrt(-2 * std::log(counted_uniform(seed_, pair)));
    const double angle = 2 * std::numbers::pi * counted_uniform(seed_, pair + 1);
    pair_ = pair;
    even_ = radius * std::cos(angle);
    odd_ = radius * std::sin(angle);
  }
  return index == pair ? even_ : odd_;
}

std::vector<bool> counted_choice(uint64_t seed, int64_t count, int64_t chosen) {
  std::vector<std::pair<uint64_t, int64_t>> order;
  // Sorting random keys chooses uniformly, without rejection.
  for (int64_t i = 0; i < count; ++i)
    order.emplace_back(counted_bits(seed, static_cast<uint64_t>(i)), i);
  // The index breaks ties of equal keys, so the order is the same on every platform.
  std::sort(order.begin(), order.end());
  std::vector<bool> flags(static_cast<size_t>(count));
  for (int64_t i = 0; i < chosen; ++i)
    flags[static_cast<size_t>(order[static_cast<size_t>(i)].second)] = true;
  return flags;
}

}  // namespace moec
