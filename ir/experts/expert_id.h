// The names of a routed expert and of a tensor.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

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

// A tensor of a model by its role (TensorNames in ir/model/model_config.h). `layer` is -1 for the
// head. `expert` is -1 if the tensor belongs to no expert, or contains all experts.
struct RoleTensor {
  int64_t layer = -1, expert = -1;
  std::string role;
  auto operator<=>(const RoleTensor&) const = default;
};

}  // namespace moec
