// Index steps as arithmetic: element [i0, i1, …] of a view is element offset + Σ i·stride of a flat
// source. Slices, permutes and most reshapes keep that form.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

struct AffineMap {
  int64_t offset = 0;
  Dims dims, strides;  // of equal length; strides of axes of size 1 mean nothing
  bool operator==(const AffineMap&) const = default;
};

AffineMap whole(const Dims& dims);  // row-major, from 0
AffineMap sliced(AffineMap map, const SliceStep& step);
AffineMap permuted(const AffineMap& map, const PermuteStep& step);
// Nothing where the elements of a new axis do not lie at equal distances.
std::optional<AffineMap> reshaped(const AffineMap& map, const Dims& dims);

// Whether the view is a stretch of the source, in order.
bool is_contiguous(const AffineMap& map);

}  // namespace moec
