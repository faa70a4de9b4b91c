// Alternative roles for the same matrices (models/families/README.md): stored individually or
// joined, transposed, or with rows of another matrix. A descriptor can list both alternatives; the
// tensors in the files determine which one applies.
#pragma once

#include <span>
#include <string_view>

namespace moec {

struct RoleChoice {
  std::span<const std::string_view> usual, other;
};

std::span<const RoleChoice> role_choices();

}  // namespace moec
