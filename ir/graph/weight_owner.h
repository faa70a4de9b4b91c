// To which layer and expert each weight of an emitted file belongs, as the file's own metadata
// states it, so that a reader need not infer it from the graph.
//
// The text has one line for each weight, in the order of the names:
//   plain NAME                                 a weight of no expert
//   expert LAYER FIRST COUNT AXIS NAME         block i of COUNT equal blocks along AXIS belongs to
//                                              expert FIRST + i of layer LAYER
//   routing LAYER FIRST COUNT AXIS NAME        block i makes the routing weight of that expert
// LAYER counts the layers of the whole model; NAME, which may hold spaces, is the weight's name in
// the file.
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
  expert,   // met by the routing weights of experts [first, first + count)
  routing,  // of the router: block e makes channel e of the routing weights; plain where the
            // router has more blocks than there are experts
};
constexpr auto enum_names(WeightRole) {
  return name_table<WeightRole>({"plain", "expert", "routing"});
}

struct WeightOwner {
  WeightRole role = WeightRole::plain;
  // 0, 0, 1, 0 with role plain.
  int64_t layer = 0;
  int64_t first = 0, count = 1;
  int64_t axis = 0;
  bool operator==(const WeightOwner&) const = default;
};

using WeightOwners = std::map<std::string, WeightOwner, std::less<>>;  // by the name in the file

// For messages: "experts 2 to 3 of layer 0", "no expert".
std::string describe(const WeightOwner& owner);

std::string to_text(const WeightOwners& owners);
// Nothing for a text that to_text() does not write.
std::optional<WeightOwners> parse_weight_owners(std::string_view text);

}  // namespace moec
