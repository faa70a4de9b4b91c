// Computes the k largest channels of a token tensor as a mask of zeros and ones, without gather.
#pragma once

#include "ir/graph/builder.h"
#include "passes/halves.h"
#include "passes/pass.h"

namespace moec {

// Returns a mask with the sizes and element type of `scores`. Each token has k ones, at its k
// largest channels; the lowest index wins ties. Scores must lie within ±max_selection_score().
//   rank     rank_e = Σ_j [s_j > s_e] + Σ_{j<e} [s_j = s_e]; mask = rank < k
//   iterate  k rounds: the first of the largest is added to the mask and knocked out of s; uses
//            only max, min, less, cast, mul, sub and add
//   topk     the native op; mask_e = Σ_i [index_i = e]
// The form host is computed as rank; full_softmax is not allowed. Low halves decide between equal
// high halves.
ValueId choose_top(Builder& b, RoutingForm form, const Halves& scores, int64_t k);

// Returns the largest element along the axis, named `name`.
Halves largest(Builder& b, const Halves& x, int64_t axis, const std::string& name);
// Returns 1 at the largest element along the axis (the first one among equals) and 0 elsewhere.
// `countdown` contains n … 1 along that axis and broadcasts over x.
ValueId first_largest(Builder& b, const Halves& x, int64_t axis, ValueId countdown);

// kept_only: returns x where the mask `kept` is 1 and -max_selection_score() where the mask is 0.
// without: as kept_only, with the inverse mask `removed`. Kept scores are bit-identical.
ValueId kept_only(Builder& b, ValueId x, ValueId kept, std::string name = {});
ValueId without(Builder& b, ValueId x, ValueId removed, std::string name = {});

// Constants n, n - 1, … 1 (down) or 0, 1, … n - 1 (up), with the sizes `dims`.
ValueId count_down(Builder& b, DType dtype, const Dims& dims);
ValueId count_up(Builder& b, DType dtype, const Dims& dims);

// Returns the largest n such that the element type represents every integer up to n. This is the
// maximum number of channels of choose_top().
int64_t exact_count(DType dtype);

}  // namespace moec
