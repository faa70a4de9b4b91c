// Matrices that checkpoints store one by one or joined to one tensor, by their roles
// (models/families/README.md). Only the files show which; a descriptor may name both.
#pragma once

#include <span>
#include <string_view>

namespace moec {

struct FusedRoles {
  std::span<const std::string_view> apart, joined;
};

std::span<const FusedRoles> fused_roles();

}  // namespace moec
