// Walks over elements that are evenly spaced along each axis, both in a source and in a
// destination.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

// One axis of a walk: `extent` steps, each `from` units in the source and `to` units in the
// destination. The caller defines the unit (bytes or elements).
struct WalkAxis {
  int64_t extent = 1, from = 0, to = 0;
  bool operator==(const WalkAxis&) const = default;
};
using Walk = std::vector<WalkAxis>;  // outermost first

// Returns the same walk in the order of the source: drops axes of extent 1, sorts the others by
// descending `from`, and joins adjacent axes if source and destination allow it.
Walk in_source_order(Walk walk);

// Copies elements of `width` bytes (1, 2, 4 or 8). The unit of the walk is a byte.
void copy_strided(const std::byte* from, std::byte* to, const Walk& walk, size_t width);

// Calls visit(from_offset, to_offset), which returns a Status, for each position along the first
// `count` axes of the walk, in order. Stops at the first failure and returns it.
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

// Returns the strides of a row-major tensor; the stride of the last axis is `unit`.
Dims row_major_steps(const Dims& dims, int64_t unit);

// Index steps as arithmetic: element [i0, i1, …] of a view is element offset + Σ i·stride of a flat
// source. Slices, permutes and most reshapes preserve this form.

struct AffineMap {
  int64_t offset = 0;
  Dims dims, strides;  // of equal length; the strides of axes of size 1 are ignored
  bool operator==(const AffineMap&) const = default;
};

AffineMap whole(const Dims& dims);  // row-major, from 0
AffineMap sliced(AffineMap map, const SliceStep& step);
AffineMap permuted(const AffineMap& map, const PermuteStep& step);
// Returns nullopt if the elements along a new axis are not evenly spaced.
std::optional<AffineMap> reshaped(const AffineMap& map, const Dims& dims);

// Returns true if the view is one contiguous range of the source, in order.
bool is_contiguous(const AffineMap& map);

}  // namespace moec
