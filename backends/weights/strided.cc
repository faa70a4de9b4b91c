#include "backends/weights/strided.h"

#include <algorithm>
#include <cstring>

#include "ir/diagnostics.h"
#include "ir/invariant.h"

namespace moec {
namespace {

// A transposed copy touches one of its sides in steps; tiles this wide keep that side's cache lines
// in use until they are done with.
constexpr int64_t kTile = 32;

template <class T>
void copy_line(const std::byte* from, std::byte* to, const WalkAxis& axis) {
  for (int64_t i = 0; i < axis.extent; ++i)
    std::memcpy(to + i * axis.to, from + i * axis.from, sizeof(T));
}

template <class T>
void copy_plane(const std::byte* from, std::byte* to, const WalkAxis& outer,
                const WalkAxis& inner) {
  for (int64_t i = 0; i < outer.extent; i += kTile)
    for (int64_t j = 0; j < inner.extent; j += kTile)
      for (int64_t k = i; k < std::min(outer.extent, i + kTile); ++k)
        copy_line<T>(from + k * outer.from + j * inner.from, to + k * outer.to + j * inner.to,
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

}  // namespace moec
