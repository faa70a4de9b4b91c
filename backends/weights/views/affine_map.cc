#include "backends/weights/views/affine_map.h"

#include "backends/weights/views/strided.h"
#include "ir/base/at.h"

namespace moec {
namespace {

struct Flat {
  Dims dims, strides;
};

// The axes that are longer than 1. Neighbours whose elements are evenly spaced are joined into one.
Flat joined_axes(const AffineMap& map) {
  Flat flat;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    if (map.dims[i] == 1) continue;
    if (!flat.dims.empty() && flat.strides.back() == map.strides[i] * map.dims[i]) {
      flat.dims.back() *= map.dims[i];
      flat.strides.back() = map.strides[i];
    } else {
      flat.dims.push_back(map.dims[i]);
      flat.strides.push_back(map.strides[i]);
    }
  }
  return flat;
}

}  // namespace

AffineMap whole(const Dims& dims) { return {0, dims, row_major_steps(dims, 1)}; }

AffineMap sliced(AffineMap map, const SliceStep& step) {
  const auto axis = static_cast<size_t>(step.axis);
  map.offset += step.begin * map.strides[axis];
  map.dims[axis] = step.size;
  return map;
}

AffineMap permuted(const AffineMap& map, const PermuteStep& step) {
  AffineMap result{map.offset, {}, {}};
  for (int64_t axis : step.axes) {
    result.dims.push_back(map.dims.at(axis));
    result.strides.push_back(at(map.strides, axis));
  }
  return result;
}

// Cuts the new axes off the joined old ones, from the innermost on. Each must divide the rest of
// the old axis that it is cut from; otherwise no map with one stride an axis exists.
std::optional<AffineMap> reshaped(const AffineMap& map, const Dims& dims) {
  Flat old = joined_axes(map);
  AffineMap result{map.offset, dims, Dims(dims.size(), 0)};
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    while (!old.dims.empty() && old.dims.back() == 1) old.dims.pop_back(), old.strides.pop_back();
    if (old.dims.empty() || old.dims.back() % dims[i] != 0) return std::nullopt;
    result.strides[i] = old.strides.back();
    old.dims.back() /= dims[i];
    old.strides.back() *= dims[i];
  }
  return result;
}

bool is_contiguous(const AffineMap& map) {
  const Flat flat = joined_axes(map);
  return flat.dims.empty() || (flat.dims.size() == 1 && flat.strides[0] == 1);
}

}  // namespace moec
