// The architectures that a dense model can become, and what their configs can say.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/base/enum_table.h"

namespace moec {

// What stands beside the routed experts of a layer.
//   none       nothing
//   optional   a shared expert, if it has a width
//   experts    always, as wide as a whole number of experts
//   always     always, of any width
//   gated      always, of any width, times the sigmoid of a linear map
enum class SharedForm : uint8_t { none, optional, experts, always, gated };

// Which layers have experts.
//   all    every one
//   any    any of them
//   last   all from one on
//   apart  any of those that are a feed-forward part alone
enum class LayerChoice : uint8_t { all, any, last, apart };

struct TargetArch {
  std::string_view model_type;
  std::string_view class_name;  // of transformers
  SharedForm shared = SharedForm::none;
  LayerChoice layers = LayerChoice::all;
  bool unnormalised = false;  // weights need not be normalised
  bool same_family = false;   // only a model of this family itself becomes it
};

// In the order in which they are tried where none is named.
std::span<const TargetArch> target_archs();
// Null where there is none.
const TargetArch* find_target_arch(std::string_view model_type);

}  // namespace moec
