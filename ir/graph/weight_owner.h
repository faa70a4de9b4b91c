// Layer and expert of each weight in an emitted file, stored in the file's metadata, so that a
// reader need not infer them from the graph.
//
// The text has one line per weight, in the order of the names:
//   plain NAME                                 the weight belongs to no expert
//   expert LAYER FIRST COUNT AXIS NAME         block i of COUNT equal blocks along AXIS belongs to
//                                              expert FIRST + i of layer LAYER
//   routing LAYER FIRST COUNT AXIS NAME        block i computes the routing weight of that expert
// LAYER is the index in the whole model. NAME is the weight's name in the file and may contain
// spaces.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ir/base/enum_table.h"

namespace moec {

enum class WeightRole : uint8_t {
  plain,    // belongs to no expert: norms, a shared expert
  expert,   // multiplied by the routing weights of experts [first, first + count)
  routing,  // of the router: block e computes channel e of the routing weights; plain if the
            // router has more blocks than there are experts
};
constexpr auto enum_names(WeightRole) {
  return name_table<WeightRole>({"plain", "expert", "routing"});
}

struct WeightOwner {
  WeightRole role = WeightRole::plain;
  // 0, 0, 1 and 0 with role plain.
  int64_t layer = 0;
  int64_t first = 0, count = 1;
  int64_t axis = 0;
  bool operator==(const WeightOwner&) const = default;
};

using WeightOwners = std::map<std::string, WeightOwner, std::less<>>;  // by the name in the file

// For messages: "experts 2 to 3 of layer 0", "no expert".
std::string describe(const WeightOwner& owner);

std::string to_text(const WeightOwners& owners);
// The inverse of to_text(); empty for malformed texts.
std::optional<WeightOwners> parse_weight_owners(std::string_view text);

}  // namespace moec
