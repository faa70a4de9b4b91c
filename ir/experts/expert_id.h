// The name of a routed expert.
#pragma once

#include <cstdint>

namespace moec {

// Experts of a layer in any model, profile or trace: ten times the largest number of published
// models, 384 in Kimi-K2.
inline constexpr int64_t kMostExperts = 4096;

// An expert of an MoE layer, both numbered as in the model. Ordered by layer, then by expert.
struct ExpertId {
  int64_t layer = 0;
  int64_t expert = 0;
  auto operator<=>(const ExpertId&) const = default;
};

}  // namespace moec
