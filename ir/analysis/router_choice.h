// Finds where the lowered routers of a shard choose their experts, and puts a ceiling on the scores
// that they choose by: an expert with a low ceiling is never chosen. Nothing else changes. The
// weights of those that are chosen follow from scores without a ceiling, but with sparsemixer, for
// which an expert that cannot be chosen does not exist.
//
// Routers are known by the names of their values, which lower_router (passes) gives and emitted
// files keep. In the scope of a router, "router" or beside other layers "L03.router", these are
//   router         the logits (the name of the scope itself)
//   router.scores  the scores, where there are any
//   router.choice  what experts are chosen by, where that is neither of them; in f16 with
//                  router.choice_low, what its rounding lost
//   router.mask    1 for the experts that are chosen, 0 for others
//   router.first.weight   the first pick's part of the weights: only with sparsemixer
// Files whose names have no dots have underscores in their place.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/builder.h"

namespace moec {

// A value of scores [experts and null slots along axis 1], and the ops that choose by it.
struct ChoiceScores {
  ValueId value;
  std::vector<OpId> users;  // ascending
};

struct RouterChoice {
  std::string scope;  // "router", "L03.router"
  std::vector<ChoiceScores> scores;
};

// The routers of a shard, in the order in which they run. Errors: router.no_choice (the shard has
// no router whose choice is known by the names above, but should have `routers`, or another number
// of them).
Result<std::vector<RouterChoice>> find_choices(const Shard& shard, size_t routers);

// The type of a router's ceilings, [1, experts, …], and the name of the value or input that holds
// them.
Type ceiling_type(const Shard& shard, const RouterChoice& router);
std::string ceiling_name(const RouterChoice& router);

// A ceiling for each slot: none (the largest finite number of the element type) for the slots that
// `kept` has (ascending), else a number below all scores, of which two can be added. What
// lower_router has knocked out of its choice is lower still.
std::vector<double> choice_ceilings(DType dtype, int64_t slots, const std::vector<int64_t>& kept);

// Makes the ceilings of a router in the new shard, as an input or a constant.
using CeilingMaker = std::function<ValueId(Builder& b, const RouterChoice& router)>;

// The shard with ceilings on the scores. Those for which `make` gives an invalid value stay as they
// are.
Shard with_ceilings(const Shard& shard, std::span<const RouterChoice> routers,
                    const CeilingMaker& make);

}  // namespace moec
