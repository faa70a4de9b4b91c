// Walks over elements that lie at fixed distances along each axis, in a source and in a
// destination.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

// One axis of a walk: `extent` steps, each `from` further in the source and `to` further in the
// destination. The unit (bytes or elements) is the caller's.
struct WalkAxis {
  int64_t extent = 1, from = 0, to = 0;
  bool operator==(const WalkAxis&) const = default;
};
using Walk = std::vector<WalkAxis>;  // outermost first

// The same walk in the order of the source: axes of extent 1 are dropped, the others are sorted by
// `from`, the largest first, and neighbours are joined where source and destination allow it.
Walk in_source_order(Walk walk);

// Elements of `width` bytes (1, 2, 4 or 8); the walk is in bytes.
void copy_strided(const std::byte* from, std::byte* to, const Walk& walk, size_t width);

// Calls visit(from_offset, to_offset), which returns a Status, for each position along the first
// `count` axes of the walk, in order. The first failure ends the walk and is returned.
template <class Visit>
auto for_each_offset(const Walk& walk, size_t count, Visit&& visit) {
  std::vector<int64_t> at(count, 0);
  int64_t from = 0, to = 0;
  while (true) {
    if (auto status = visit(from, to); !status) return status;
    size_t axis = count;
    while (axis > 0) {
      const WalkAxis& a = walk[axis - 1];
      from += a.from, to += a.to;
      if (++at[axis - 1] < a.extent) break;
      from -= a.from * a.extent, to -= a.to * a.extent;
      at[--axis] = 0;
    }
    if (axis == 0) return decltype(visit(from, to)){};
  }
}

// The distances between neighbours along each axis of a row-major tensor; along the last it is
// `unit`.
Dims row_major_steps(const Dims& dims, int64_t unit);

// Index steps as arithmetic: element [i0, i1, …] of a view is element offset + Σ i·stride of a flat
// source. Slices, permutes and most reshapes of such a view have this form, too.

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
