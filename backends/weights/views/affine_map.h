// Index steps as arithmetic: element [i0, i1, …] of a view is element offset + Σ i·stride of a flat
// source. Slices, permutes and most reshapes of such a view have this form, too.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

struct AffineMap {
  int64_t offset = 0;
  Dims dims, strides;  // of equal length; the strides of axes of size 1 are ignored
  bool operator==(const AffineMap&) const = default;
};

AffineMap whole(const Dims& dims);  // row-major, from 0
AffineMap sliced(AffineMap map, const SliceStep& step);
AffineMap permuted(const AffineMap& map, const PermuteStep& step);
// Nothing if the elements along a new axis do not lie at equal distances.
std::optional<AffineMap> reshaped(const AffineMap& map, const Dims& dims);

// Whether the view is one stretch of the source, in order and without gaps.
bool is_contiguous(const AffineMap& map);

}  // namespace moec
