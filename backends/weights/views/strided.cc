#include "backends/weights/views/strided.h"

#include <algorithm>
#include <cstring>

#include "ir/base/at.h"
#include "ir/base/diagnostics.h"
#include "ir/base/invariant.h"

namespace moec {

namespace {

// A tile of 4-byte elements has 4 KiB and fits in the L1 cache.
constexpr int64_t kTile = 32;

template <class T>
void copy_line(const std::byte* from, std::byte* to, const WalkAxis& axis) {
  for (int64_t i = 0; i < axis.extent; ++i)
    std::memcpy(to + i * axis.to, from + i * axis.from, sizeof(T));
}

// Transposes through a local tile, so that each cache line of either side is touched once: lines a
// power of two apart evict each other from the cache.
template <class T>
void transpose_tile(const std::byte* from, std::byte* to, const WalkAxis& outer,
                    const WalkAxis& inner) {
  T tile[kTile][kTile];
  for (int64_t i = 0; i < outer.extent; ++i)
    for (int64_t j = 0; j < inner.extent; ++j)
      std::memcpy(&tile[j][i], from + i * outer.from + j * inner.from, sizeof(T));
  for (int64_t j = 0; j < inner.extent; ++j)
    std::memcpy(to + j * inner.to, tile[j], static_cast<size_t>(outer.extent) * sizeof(T));
}

template <class T>
void copy_plane(const std::byte* from, std::byte* to, const WalkAxis& outer,
                const WalkAxis& inner) {
  if (outer.to != sizeof(T)) {
    for (int64_t i = 0; i < outer.extent; ++i)
      copy_line<T>(from + i * outer.from, to + i * outer.to, inner);
    return;
  }
  for (int64_t j = 0; j < inner.extent; j += kTile)
    for (int64_t i = 0; i < outer.extent; i += kTile)
      transpose_tile<T>(from + i * outer.from + j * inner.from, to + i * outer.to + j * inner.to,
                        {std::min(kTile, outer.extent - i), outer.from, outer.to},
                        {std::min(kTile, inner.extent - j), inner.from, inner.to});
}

template <class T>
void copy_elements(const std::byte* from, std::byte* to, const Walk& walk) {
  const size_t planes = walk.size() - 2;
  (void)for_each_offset(walk, planes, [&](int64_t from_offset, int64_t to_offset) -> Status {
    copy_plane<T>(from + from_offset, to + to_offset, walk[planes], walk[planes + 1]);
    return {};
  });
}

void copy_segments(const std::byte* from, std::byte* to, const Walk& walk, size_t bytes) {
  (void)for_each_offset(walk, walk.size() - 1,
                        [&](int64_t from_offset, int64_t to_offset) -> Status {
                          std::memcpy(to + to_offset, from + from_offset, bytes);
                          return {};
                        });
}

}  // namespace

Walk in_source_order(Walk walk) {
  std::erase_if(walk, [](const WalkAxis& axis) { return axis.extent == 1; });
  std::stable_sort(walk.begin(), walk.end(),
                   [](const WalkAxis& a, const WalkAxis& b) { return a.from > b.from; });
  Walk joined;
  for (const WalkAxis& axis : walk) {
    // Axes join if an outer step equals the whole inner axis, in the source and the destination.
    const bool joins = !joined.empty() && joined.back().from == axis.from * axis.extent &&
                       joined.back().to == axis.to * axis.extent;
    if (joins)
      joined.back() = {joined.back().extent * axis.extent, axis.from, axis.to};
    else
      joined.push_back(axis);
  }
  return joined;
}

void copy_strided(const std::byte* from, std::byte* to, const Walk& walk, size_t width) {
  Walk axes = in_source_order(walk);
  const auto step = static_cast<int64_t>(width);
  if (!axes.empty() && axes.back().from == step && axes.back().to == step)
    return copy_segments(from, to, axes, static_cast<size_t>(axes.back().extent) * width);
  // copy_elements() requires a plane; an axis of extent 1 does not change the walk.
  while (axes.size() < 2) axes.insert(axes.begin(), WalkAxis{});
  switch (width) {
    case 1:
      return copy_elements<uint8_t>(from, to, axes);
    case 2:
      return copy_elements<uint16_t>(from, to, axes);
    case 4:
      return copy_elements<uint32_t>(from, to, axes);
    case 8:
      return copy_elements<uint64_t>(from, to, axes);
  }
  MOEC_CHECK(false, "no element type has {} bytes", width);
}

Dims row_major_steps(const Dims& dims, int64_t unit) {
  Dims steps(dims.size());
  for (size_t i = dims.size(); i-- > 0; unit *= dims[i]) steps[i] = unit;
  return steps;
}

namespace {

struct Flat {
  Dims dims, strides;
};

// Axes longer than 1; adjacent axes with evenly spaced elements are joined.
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

// Splits the joined old axes into the new ones, starting with the innermost. Each new axis must
// divide the rest of its old axis; otherwise no map with one stride per axis exists.
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
