// The name of a routed expert.
#pragma once

#include <cstdint>

namespace moec {

// Maximum number of experts per layer in a model, profile or trace: more than ten times the largest
// published number, 384 in Kimi-K2.
inline constexpr int64_t kMaxExperts = 4096;

// An expert of an MoE layer, both numbered as in the model. Ordered by layer, then by expert.
struct ExpertId {
  int64_t layer = 0;
  int64_t expert = 0;
  auto operator<=>(const ExpertId&) const = default;
};

}  // namespace moec
