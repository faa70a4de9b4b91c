// Finds the values by which a shard's lowered routers choose experts, and clamps these values to a
// ceiling. An expert with a low ceiling is never chosen. Routing weights are still computed from
// the unclamped scores, with two exceptions: sparsemixer ignores experts that cannot be chosen, and
// so does a softmax whose chosen shares are divided by their sum.
//
// Routers are recognized by value names, which the pass lower_router assigns and emitted files
// preserve. The scope of a router is "router", or "L03.router" in a shard of several layers. Its
// names are:
//   router         the logits (the name of the scope itself)
//   router.scores  the scores, if they are computed
//   router.choice  the selection scores, if they are neither of the above; in f16 with
//                  router.choice_low, their rounding error
//   router.mask    1 for the experts that are chosen, 0 for the others
//   router.total   the sum of the chosen scores, if they are divided by it
//   router.first.weight   the routing weight of the first pick, only with sparsemixer
// Formats without dots in names use underscores instead.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/builder.h"

namespace moec {

// A value of selection scores, with experts and null slots along axis 1, and the ops that use it
// for selection.
struct ChoiceScores {
  ValueId value;
  std::vector<OpId> users;  // ascending
};

struct RouterChoice {
  std::string scope;  // "router", "L03.router"
  std::vector<ChoiceScores> scores;
};

// Returns the routers of a shard in execution order. Error router.no_choice: the number of routers
// found by the names above is not `routers`.
Result<std::vector<RouterChoice>> find_choices(const Shard& shard, size_t routers);

// The type of a router's ceilings, [1, experts, …], and the name of the value or input that
// contains them.
Type ceiling_type(const Shard& shard, const RouterChoice& router);
std::string ceiling_name(const RouterChoice& router);

// Returns one ceiling per slot. Slots in `kept` (ascending) get the largest finite number of
// `dtype`, which has no effect. Other slots get a number below all scores, such that the sum of two
// of these numbers is finite. Scores that lower_router knocked out are still lower.
std::vector<double> choice_ceilings(DType dtype, int64_t slots, const std::vector<int64_t>& kept);

// Makes the ceilings of a router in the new shard, as an input or a constant. An invalid id leaves
// the router unclamped.
using CeilingMaker = std::function<ValueId(Builder& b, const RouterChoice& router)>;

// Returns the shard with the routers' selection scores clamped to the ceilings of `make`.
Shard with_ceilings(const Shard& shard, std::span<const RouterChoice> routers,
                    const CeilingMaker& make);

}  // namespace moec
