// Ways in which checkpoints store the same matrices, by their roles (models/families/README.md):
// one by one or joined, transposed, with rows that belong to something else. Only the files show
// which; a descriptor may name both.
#pragma once

#include <span>
#include <string_view>

namespace moec {

struct RoleChoice {
  std::span<const std::string_view> usual, other;
};

std::span<const RoleChoice> role_choices();

}  // namespace moec
