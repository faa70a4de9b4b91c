// The k largest channels of a token tensor as a mask of zeros and ones, without gather.
#pragma once

#include "ir/graph/builder.h"
#include "passes/halves.h"
#include "passes/pass.h"

namespace moec {

// The sizes of the mask and its element type are those of `scores`; each token has k ones, at its k
// largest channels, the lowest index first among equals. Scores lie within ±max_selection_score().
//   rank     rank_e = Σ_j [s_j > s_e] + Σ_{j<e} [s_j = s_e]; mask = rank < k
//   iterate  k rounds: the first of the largest joins the mask and is knocked out of s; only max,
//            min, less, cast, mul, sub, add
//   topk     the native op; mask_e = Σ_i [index_i = e]
// host is taken as rank; full_softmax chooses nothing and must not come here. Of two scores with
// one high half the low halves decide.
ValueId choose_top(Builder& b, RoutingForm form, const Halves& scores, int64_t k);

// The largest element along the axis.
Halves largest(Builder& b, const Halves& x, int64_t axis, const std::string& name);
// 1 at the largest element along the axis, the first of them among equals, 0 elsewhere.
// `countdown` holds n … 1 along that axis and broadcasts over x.
ValueId first_largest(Builder& b, const Halves& x, int64_t axis, ValueId countdown);

// x where the mask `kept` is 1 and -max_selection_score() where it is 0; or, for a mask of what is
// `removed`, the reverse. Scores of x stay as they are to the bit.
ValueId kept_only(Builder& b, ValueId x, ValueId kept, std::string name = {});
ValueId without(Builder& b, ValueId x, ValueId removed, std::string name = {});

// n, n - 1, … 1 (down) or 0, 1, … n - 1 (up), in the given sizes.
ValueId count_down(Builder& b, DType dtype, const Dims& dims);
ValueId count_up(Builder& b, DType dtype, const Dims& dims);

// The largest n for which an element type represents every integer up to n: the largest number of
// channels that choose_top() takes.
int64_t exact_count(DType dtype);

}  // namespace moec
